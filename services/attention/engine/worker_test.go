package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// realBench is a bench whose only worker computes the synthetic model, with the
// experts by direct calls.
func realBench(t *testing.T, maxRows int) *bench {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	return benchOf(t, m, maxRows)
}

// benchOf is a realBench of another model.
func benchOf(t *testing.T, m *model.Model, maxRows int) *bench {
	t.Helper()
	p := pool.New(1)
	t.Cleanup(p.Close)
	backbone, err := forward.LoadBackbone(m, p, 128)
	if err != nil {
		t.Fatal(err)
	}
	router, err := forward.LoadRouter(m, p)
	if err != nil {
		t.Fatal(err)
	}
	cpu := device.NewCPU(m, p, device.Settings{})
	if err := device.LoadAll(t.Context(), cpu, m.Spec); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, 1, maxRows)
	if b.kv, err = backbone.NewPool(0, 8<<20); err != nil {
		t.Fatal(err)
	}
	b.stats.kv, b.seats.kv = b.kv, b.kv
	l := b.workers[0]
	l.step.Backbone, l.step.MoE = backbone, &forward.Local{Gates: router, Experts: cpu, Wire: tensor.BF16, Hidden: m.Spec.Hidden, Pool: p}
	return b
}

// compute takes one microbatch through the real worker; false: there was none.
func (b *bench) compute() bool {
	b.start()
	if len(b.flying) == 0 {
		return false
	}
	mb := b.flying[0]
	b.flying = nil
	mb.err = b.workers[0].forward(b.t.Context(), mb)
	b.settle(mb)
	b.write()
	return true
}

// ask is a sampled request with scores and log-probabilities.
func (b *bench) ask(id string, prompt, maxTokens int, score string) *Sequence {
	s := b.request(id, prompt, maxTokens)
	for i := range s.seq.PromptIds {
		s.seq.PromptIds[i] = uint32((i*i + 7*i + len(id)) % 320)
	}
	copy(s.ids, s.seq.PromptIds)
	s.seq.StopTokenIds, s.seq.Score = nil, score
	s.params = sampling.Params{Temperature: 1, TopP: 0.95, RepetitionPenalty: 1.2, Seed: 11, Logprobs: 2,
		PresencePenalty: 0.7, FrequencyPenalty: 0.3, MinP: 0.001, Bias: []sampling.Bias{{ID: 5, Value: 2}}, MinTokens: 2, Ends: []uint32{9}}
	return s
}

// serve serves one request and returns its log.
func serve(t *testing.T, maxRows, prompt, maxTokens int, score string) []*pb.Record {
	t.Helper()
	b := realBench(t, maxRows)
	s := b.ask("r", prompt, maxTokens, score)
	b.add(s)
	for b.compute() {
	}
	return book(s).records
}

// strip leaves out what differs from run to run.
func strip(records []*pb.Record) []*pb.Record {
	for _, r := range records {
		if end := r.GetTerminal(); end != nil {
			end.Timings = nil
		}
		if token := r.GetToken(); token != nil {
			token.Cached = 0
		}
	}
	return records
}

func same(a, b []*pb.Record) bool {
	return slices.EqualFunc(strip(a), strip(b), func(x, y *pb.Record) bool { return x.String() == y.String() })
}

// The log is the same however the prompt was cut, and beside others.
func TestSameLog(t *testing.T) {
	want := serve(t, 64, 40, 6, "logprobs")
	if len(want) != 40+6+1 {
		t.Fatalf("%d records, want a score a position, 6 tokens and an end", len(want))
	}
	for _, maxRows := range []int{1, 7, 39} {
		if got := serve(t, maxRows, 40, 6, "logprobs"); !same(got, want) {
			t.Errorf("with %d rows a microbatch: %v\nwant %v", maxRows, got, want)
		}
	}
	b := realBench(t, 16)
	s := b.ask("r", 40, 6, "logprobs")
	b.add(b.ask("other", 25, 9, ""))
	b.add(s)
	b.add(b.ask("third one", 3, 12, "logits"))
	for b.compute() {
	}
	if !same(book(s).records, want) {
		t.Errorf("beside others: %v\nwant %v", book(s).records, want)
	}
}

// An owner that takes over at any record writes what the first would have.
func TestResume(t *testing.T) {
	want := serve(t, 16, 12, 5, "logprobs")
	began := time.Unix(1000, 0)
	for n := range want {
		history := []tokenlog.Entry{
			{Record: &pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{DeadlineMs: 60_000}}}, Time: began},
			{Record: &pb.Record{Epoch: 1, Kind: &pb.Record_Claim{}}, Time: began.Add(time.Second)},
		}
		for _, r := range want[:n] {
			history = append(history, tokenlog.Entry{Record: r, Time: began.Add(2 * time.Second)})
		}
		history = append(history, tokenlog.Entry{Record: &pb.Record{Epoch: 2, Kind: &pb.Record_Claim{}}, Time: began.Add(3 * time.Second)})
		b := realBench(t, 5)
		s := b.ask("r", 12, 5, "logprobs")
		now := time.Now()
		s.restore(history, now)
		if !s.accepted.Equal(now.Add(-3*time.Second)) || s.queued != time.Second || !s.deadline.Equal(now.Add(57*time.Second)) {
			t.Fatalf("accepted %v before, queued %v, deadline in %v", now.Sub(s.accepted), s.queued, s.deadline.Sub(now))
		}
		b.add(s)
		for b.compute() {
		}
		if got := append(slices.Clone(want[:n]), book(s).records...); !same(got, want) {
			t.Errorf("taken over after %d records: %v\nwant %v", n, got, want)
		}
	}
}

// Scores are log-probabilities of the prompt's own next tokens.
func TestScores(t *testing.T) {
	for score, logits := range map[string]int{"logprobs": 0, "logits": 320} {
		records := serve(t, 4, 9, 0, score)
		if len(records) != 10 || records[9].GetTerminal().GetFinishReason() != "length" {
			t.Fatalf("%s: %v", score, records)
		}
		for pos, r := range records[:9] {
			s := r.GetScore()
			if int(s.Position) != pos || len(s.Logits) != logits || (s.Logprob == nil) != (pos == 8) {
				t.Fatalf("%s: position %d: %v", score, pos, s)
			}
			if logits > 0 && pos < 8 {
				next := uint32(((pos+1)*(pos+1) + 7*(pos+1) + 1) % 320)
				if want := s.Logits[next] - sampling.LogSumExp(s.Logits); math.Abs(float64(want-*s.Logprob)) > 1e-6 {
					t.Errorf("position %d: %v, want %v", pos, *s.Logprob, want)
				}
			}
		}
	}
}

// A worker ends with its context, also while nobody takes its result.
func TestWorkerStops(t *testing.T) {
	b := realBench(t, 8)
	b.add(b.ask("r", 3, 2, ""))
	b.launch()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.workers[0].run(ctx, make(chan *microbatch)); close(done) }()
	cancel()
	<-done
}

// A fault in a microbatch of several ends only the request that has it again when
// each is tried alone; the others have the tokens they would have had.
func TestFaultySequence(t *testing.T) {
	b := realBench(t, 16)
	alone := serve(t, 16, 5, 4, "")
	good, bad, also := b.ask("r", 5, 4, ""), b.ask("bad", 6, 4, ""), b.ask("a", 5, 4, "")
	bad.ids[3] = 1 << 30 // its embedding is far outside the memory
	for _, s := range []*Sequence{good, bad, also} {
		b.add(s)
	}
	for b.compute() {
	}
	if e := book(bad).end().GetError(); e.GetCode() != "internal" || e.GetMessage() != edge.Fault || !strings.Contains(fmt.Sprint(bad.fault), "panic") {
		t.Errorf("the faulty one ended with %v", e)
	}
	if bad.fault == nil || good.fault != nil || also.fault != nil {
		t.Errorf("faults %v, %v, %v", bad.fault, good.fault, also.fault)
	}
	for _, s := range []*Sequence{good, also} {
		if !same(book(s).records, alone) {
			t.Errorf("%s: %v\nwant %v", s.seq.RequestId, book(s).records, alone)
		}
	}
	if b.kv.Used() != 0 || len(b.own.order) != 0 {
		t.Errorf("%d pages, %d sequences are left", b.kv.Used(), len(b.own.order))
	}
}

// counted is a layer that says of rows which they are.
type counted struct{ unheard }

func (counted) Outcome(first, rows int) (*pb.Fates, layer.Cost) {
	return &pb.Fates{Rows: uint32(rows)}, layer.Cost{ByteSeconds: float64(first)}
}

// Each part of a microbatch has what became of its own rows.
func TestOutcomes(t *testing.T) {
	mb := &microbatch{parts: []part{partOf(1, 1, 1, 1), partOf(5, 0, 0, 5), partOf(2, 0, 0, 2)}}
	(&worker{remote: counted{}}).tellRows(mb)
	for i, first := range []float64{0, 1, 6} {
		if p := mb.parts[i]; int(p.fates.Rows) != p.rows || p.cost.ByteSeconds != first {
			t.Errorf("part %d has %v, %+v", i, p.fates, p.cost)
		}
	}
}

// Logits that are no numbers end a request by an error, which names what to look at.
func TestUnrealLogits(t *testing.T) {
	b := realBench(t, 8)
	s := b.ask("r", 4, 3, "")
	nan := slices.Repeat([]float32{float32(math.NaN())}, 320)
	p := &part{s: s, rows: 4, tokens: s.seq.PromptIds}
	got := p.settle(&sampling.Sampler{}, 3, nan)
	if !got.chosen || got.end.GetError().GetCode() != internal || !strings.Contains(got.end.GetError().GetMessage(), "no finite numbers") {
		t.Errorf("%+v", got)
	}
	p.end = got.end
	b.add(s)
	b.journal.advance(p)
	if s.end != got.end || s.generated() != 0 {
		t.Errorf("it ends by %v, with %d tokens", s.end, s.generated())
	}
}
