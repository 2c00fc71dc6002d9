package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// A prefill that takes longer than a sequence's claim lasts stays with its
// owner while siblings have nothing to do: its progress renews the claim.
func TestSlowPrefillStays(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
	t.Parallel()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	m.Spec.Vocab = 200_000 // scores are what takes long
	count := cluster.OneEach()
	count["attention"] = 3
	y := openYardOf(t, m, count, func(up *UpCmd) { up.MaxRows = 2048 })
	claims := y.watchClaims(t)
	none, scores := int32(0), 0
	prompt := &pb.Prompt{RequestId: "slow", InputIds: make([]uint32, 500), MaxTokens: &none, Score: "logprobs"}
	for c, err := range y.ask(t, prompt) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Score != nil {
			scores++
		}
	}
	if n := claims("slow"); n != 1 || scores != 500 {
		t.Errorf("%d claims and %d scores, want 1 and 500", n, scores)
	}
}

// watchClaims returns how often a request was claimed.
func (y testYard) watchClaims(t *testing.T) func(request string) int {
	t.Helper()
	var mu sync.Mutex
	claims := map[string]int{}
	nc := y.connect(t).NATS()
	_, err := nc.Subscribe(schemas.NewSubjects(schemas.DefaultPrefix, y.name()).AnyToken(), func(m *nats.Msg) {
		if r := (&pb.Record{}); proto.Unmarshal(m.Data, r) == nil && r.GetClaim() != nil {
			mu.Lock()
			claims[schemas.LastToken(m.Subject)]++
			mu.Unlock()
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(request string) int {
		mu.Lock()
		defer mu.Unlock()
		return claims[request]
	}
}

func (y testYard) name() string { return y.Settings.Node.ModelName() }

// ask streams the answer to a prompt.
func (y testYard) ask(t *testing.T, p *pb.Prompt) func(func(*pb.Chunk, error) bool) {
	t.Helper()
	c := client.New(y.connect(t).NATS(), client.Settings{Prefix: schemas.DefaultPrefix, Model: y.name()})
	s, err := c.Prompt(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return s.Chunks()
}

// answer waits for the end of a prompt's answer, and returns the error that it ends in.
func (y testYard) answer(t *testing.T, p *pb.Prompt) (err error) {
	t.Helper()
	for c, failed := range y.ask(t, p) {
		if failed != nil {
			return failed
		}
		if e := c.GetError(); e != nil {
			err = &client.Error{Code: e.Code, Message: e.Message}
		}
	}
	return err
}

// pages is a --kv-memory of so many KV pages.
func pages(m *model.Model, n int) string {
	shape := kvcache.ShapeOf(&m.Spec)
	return fmt.Sprint(int64(n) * shape.PageBytes())
}

// filling is a prompt that needs so many pages.
func filling(id string, n int) *pb.Prompt {
	one := int32(1)
	return &pb.Prompt{RequestId: id, InputIds: slices.Repeat([]uint32{5}, n*cpu.PagePositions-1), MaxTokens: &one, IgnoreEos: true}
}

// A request that needs all pages is served under a stream of small ones.
func TestLargeRequestAmongSmall(t *testing.T) {
	t.Parallel()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	y := openYardOf(t, m, cluster.OneEach(), func(up *UpCmd) { up.KVMemory = pages(m, 4) })
	const limit = 200
	small, stop := make(chan error, limit), make(chan struct{})
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for n := 0; n < limit/8; n++ {
				select {
				case <-stop:
					return
				default:
					small <- y.answer(t, filling(fmt.Sprintf("small-%d-%d", i, n), 1))
				}
			}
		})
	}
	if err := <-small; err != nil { // they are under way
		t.Error(err)
	}
	if err := y.answer(t, filling("large", 4)); err != nil {
		t.Error(err)
	}
	served := len(small)
	close(stop)
	clients.Wait()
	if served > limit/2 {
		t.Errorf("%d of %d small ones were served before it", served, limit)
	}
}

// What a replica cannot hold it leaves to one that can; what none can hold is
// refused at acceptance; what none can hold any more ends after a while.
func TestCapacity(t *testing.T) {
	t.Parallel()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	y := openYardOf(t, m, cluster.OneEach(), func(up *UpCmd) { up.KVMemory = pages(m, 2) })
	wantRefused(t, y.answer(t, filling("early", 3)), client.CodeBadRequest, "need 3 KV pages", "has 2")
	leave := y.addAttention(t, 6)
	y.awaitAnswer(t, true)
	for i := range 4 { // each may come to either of them first
		if err := y.answer(t, filling(fmt.Sprint("held-", i), 3)); err != nil {
			t.Error(err)
		}
	}
	wantRefused(t, y.answer(t, filling("too-large", 7)), client.CodeBadRequest, "need 7 KV pages", "has 6")
	leave()
	y.awaitAnswer(t, false)
}

// The same of replicas with another --max-model-len than the tokenizer's.
func TestContexts(t *testing.T) {
	t.Parallel()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	y := openYardOf(t, m, cluster.OneEach(), func(*UpCmd) {}, func(s *cluster.Services) { s.Attention.MaxModelLen = 2 * cpu.PagePositions })
	wantRefused(t, y.answer(t, filling("early", 3)), client.CodeBadRequest, "95 prompt and 1 new tokens do not fit the longest context", "replica, 64:")
	leave := y.addAttention(t, 6)
	y.awaitAnswer(t, true)
	for i := range 8 { // each may come to either of them first
		if err := y.answer(t, filling(fmt.Sprint("long-", i), 3)); err != nil {
			t.Error(err)
		}
	}
	leave()
	y.awaitAnswer(t, false)
}

func wantRefused(t *testing.T, err error, code string, says ...string) {
	t.Helper()
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%v, want code %s", err, code)
		return
	}
	for _, s := range says {
		if !strings.Contains(refused.Message, s) {
			t.Errorf("%q does not say %q", refused.Message, s)
		}
	}
}

// awaitAnswer asks for 3 pages until that is answered, or refused.
func (y testYard) awaitAnswer(t *testing.T, answered bool) {
	t.Helper()
	asked := 0
	testkit.Eventually(t, fmt.Sprintf("answered: %v", answered), func() bool {
		asked++
		return (y.answer(t, filling(fmt.Sprintf("await-%v-%d", answered, asked), 3)) == nil) == answered
	})
}

// addAttention starts another replica with so many KV pages; leave stops it.
func (y testYard) addAttention(t *testing.T, n int) (leave func()) {
	t.Helper()
	r, err := y.Settings.Node.Connect(t.Context(), "attention")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Conn.Close)
	d, err := y.Settings.Node.Deploy(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	shape := kvcache.ShapeOf(&d.Model.Spec)
	s := attention.New(d, attention.Config{KVBytes: int64(n) * shape.PageBytes(), MaxSequences: 8, MaxRows: 64, Microbatches: 1})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	leave = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(leave)
	return leave
}

// Numbers that no tokenizer writes are bounded before anything follows them, and
// end the request that they are of and nothing else.
func TestForgedSequences(t *testing.T) {
	t.Parallel()
	y := openTestYard(t, func(*UpCmd) {})
	conn := y.connect(t)
	subjects := schemas.NewSubjects(schemas.DefaultPrefix, y.name())
	ends := make(chan *pb.Error, 100)
	_, err := conn.NATS().Subscribe(subjects.AnyToken(), func(m *nats.Msg) {
		if r := (&pb.Record{}); proto.Unmarshal(m.Data, r) == nil && r.GetTerminal().GetError() != nil {
			ends <- r.GetTerminal().GetError()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, change := range map[string]func(*pb.Sequence){
		"logprobs": func(s *pb.Sequence) { s.Sampling.Logprobs = math.MaxInt32 },
		"max":      func(s *pb.Sequence) { s.MaxTokens, s.Accept.MaxTokens = math.MaxInt32, math.MaxInt32 },
		"ids":      func(s *pb.Sequence) { s.PromptIds[0] = math.MaxUint32 },
		"stop":     func(s *pb.Sequence) { s.StopTokenIds = make([]uint32, 1<<20) },
		"score":    func(s *pb.Sequence) { s.Score = "everything" },
		"top_p":    func(s *pb.Sequence) { s.Sampling.TopP = float32(math.NaN()) },
	} {
		s := y.sequence(t, id)
		change(s)
		if _, err := conn.Store(t.Context(), subjects.Sequence(), s, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-ends:
			if !strings.HasPrefix(got.Message, "sequence "+id+": ") { // said by who looked at it, before any work
				t.Errorf("%s ended with %v", id, got)
			}
		case <-time.After(testkit.Patience):
			t.Fatalf("%s did not end", id)
		}
	}
	if err := y.answer(t, filling("honest", 1)); err != nil {
		t.Error(err)
	}
}

// sequence is one as a tokenizer writes it.
func (y testYard) sequence(t *testing.T, id string) *pb.Sequence {
	t.Helper()
	r, err := y.Settings.Node.Connect(t.Context(), "attention")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Conn.Close()
	d, err := y.Settings.Node.Deploy(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	who := &pb.Identity{Version: schemas.Version, Model: d.Identity.Model}
	return &pb.Sequence{
		Identity: who, RequestId: id, PromptIds: []uint32{1, 2, 3}, MaxTokens: 4,
		Sampling: &pb.Sampling{TopP: 1, RepetitionPenalty: 1, Logprobs: -1},
		Accept:   &pb.Accept{Identity: who, PromptTokens: 3, MaxTokens: 4},
	}
}
