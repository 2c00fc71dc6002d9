package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// logs are those of the demo model on a server of their own.
type logs struct {
	url     string
	conn    *bus.Conn
	streams schemas.Streams
}

func startLogs(t *testing.T) *logs {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: srv.URL()}, bus.Settings{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	l := &logs{srv.URL(), conn, schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}}
	if err := conn.Ensure(t.Context(), 1, l.streams.Durable()...); err != nil {
		t.Fatal(err)
	}
	return l
}

// A request whose log has its prompt is computed again; what its log lacks, or tells of another model,
// is said.
func TestRerun(t *testing.T) {
	t.Parallel()
	g, m := startLogs(t), demoModel(t)
	id, err := strconv.ParseUint(m.Hash[:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	prompt := []uint32{5, 6, 7}
	tokens := greedy(t, m, prompt, 3)
	wrong := append(append([]uint32(nil), tokens[:2]...), tokens[2]+1)
	united := wire.EncodeFates(wire.FatesShape{Rows: 3, Layers: m.Spec.Layers, Slots: m.Spec.TopK}, unitedCodes(3*m.Spec.Layers*m.Spec.TopK))
	united.Way, united.Bundle = 8, 9
	for name, tc := range map[string]struct {
		model   uint64
		tokens  []uint32
		fates   []*pb.Fates
		change  func(*pb.Accept)
		open    bool
		code    int
		says    string
		request string
	}{
		"same":        {tokens: tokens, says: "identical, 3 tokens"},
		"different":   {tokens: wrong, code: cli.ExitFailed, says: fmt.Sprintf("different: token 2 of 3 is %d in the log, and %d computed again", wrong[2], tokens[2])},
		"no-prompt":   {tokens: tokens, change: func(a *pb.Accept) { a.Sequence = nil }, code: cli.ExitFailed, says: "its log has no prompt"},
		"mixed":       {tokens: tokens, change: func(a *pb.Accept) { a.MixedClasses = true }, code: cli.ExitFailed, says: "of several numeric classes"},
		"foreign":     {model: 77, tokens: tokens, code: cli.ExitUsage, says: "was asked of the model with hash 000000000000004d"},
		"running":     {tokens: tokens, open: true, code: cli.ExitFailed, says: "has not ended yet"},
		"unknown":     {request: "never-asked", code: cli.ExitFailed, says: "model demo has no log of request never-asked"},
		"browned":     {tokens: tokens, fates: []*pb.Fates{united}, code: cli.ExitFailed, says: "give their folder with --united"},
		"other-class": {tokens: tokens, change: func(a *pb.Accept) { a.NumericClass, a.Wire = "fma32-kv8", "bf16" }, code: cli.ExitUsage, says: `was answered as "fma32-kv8" with rows in "bf16"`},
		"other-wire":  {tokens: tokens, change: func(a *pb.Accept) { a.NumericClass, a.Wire = "fma32", "f32" }, code: cli.ExitUsage, says: `with rows in "f32", and would be computed again`},
		"same-class":  {tokens: tokens, change: func(a *pb.Accept) { a.NumericClass, a.Wire = "fma32", "bf16" }, says: "identical, 3 tokens"},
		"no-id":       {request: "a b", code: cli.ExitUsage, says: `request_id "a b" has ' '`},
	} {
		request := tc.request
		if request == "" {
			request = name
			accept := &pb.Accept{
				Identity: &pb.Identity{Version: schemas.Version, Model: cmp.Or(tc.model, id)}, PromptTokens: 3, MaxTokens: 3,
				Sequence: &pb.Sequence{PromptIds: prompt, MaxTokens: 3, Sampling: &pb.Sampling{TopP: 1, RepetitionPenalty: 1, Logprobs: -1}},
			}
			if tc.change != nil {
				tc.change(accept)
			}
			log := []*pb.Record{{Kind: &pb.Record_Accept{Accept: accept}}, {Epoch: 1, Kind: &pb.Record_Claim{Claim: &pb.Claim{}}}}
			for i, token := range tc.tokens {
				one := &pb.Token{Index: int32(i), Id: token}
				if i == 0 {
					one.Fates = tc.fates
				}
				log = append(log, &pb.Record{Epoch: 1, Kind: &pb.Record_Token{Token: one}})
			}
			if !tc.open {
				log = append(log, &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: "length"}}})
			}
			for _, r := range log {
				r.Format, r.Writer = schemas.RecordFormat, "attention-1"
				if _, err := g.conn.Store(t.Context(), g.streams.Subjects.Token(request), proto.CloneOf(r), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := invoke("", "--nats", g.url, "rerun", request)
		if got.Code != tc.code || !strings.Contains(got.Out+got.Err, tc.says) {
			t.Errorf("%s: %+v, want code %d and %q", name, got, tc.code, tc.says)
		}
	}
	got := invoke("", "--nats", g.url, "rerun", "--name", "nobody", "never-asked")
	if want := "this NATS server has no token log of model nobody"; got.Code != cli.ExitFailed || !strings.Contains(got.Err, want) {
		t.Errorf("a model that was never served: %+v, want code %d and %q", got, cli.ExitFailed, want)
	}
}

func unitedCodes(n int) []wire.FateCode {
	codes := make([]wire.FateCode, n)
	codes[n-1] = wire.FateUnited
	return codes
}

func demoModel(t *testing.T) *model.Model {
	t.Helper()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // it is only read
	return m
}

// greedy is what direct calls answer.
func greedy(t *testing.T, m *model.Model, prompt []uint32, n int) []uint32 {
	t.Helper()
	p := pool.New(1)
	defer p.Close()
	r, err := direct.New(m, p, direct.Settings{Wire: tensor.BF16, MaxPositions: 32, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Add(prompt, n, sampling.Params{TopP: 1, RepetitionPenalty: 1, Logprobs: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range n {
		if err := r.Step(t.Context(), []*direct.Sequence{s}); err != nil {
			t.Fatal(err)
		}
	}
	return append([]uint32(nil), s.Generated()...)
}
