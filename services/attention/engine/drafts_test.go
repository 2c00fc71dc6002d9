package engine

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// drafting serves requests whose prompts repeat themselves, with drafts of so many tokens at most, and
// returns their logs, and how many microbatches it took.
func drafting(t *testing.T, most, maxRows int, change func(*Sequence)) (logs [][]*pb.Record, steps int, b *bench) {
	t.Helper()
	b = realBench(t, maxRows)
	b.drafts.most = most
	var all []*Sequence
	for _, id := range []string{"r", "two", "three"} {
		s := b.ask(id, 24, 90, "")
		for i := range s.seq.PromptIds {
			s.seq.PromptIds[i] = uint32(10 + i%(4+len(id)))
		}
		copy(s.ids, s.seq.PromptIds)
		change(s)
		b.add(s)
		all = append(all, s)
	}
	for b.compute() {
		steps++
		b.drafts.price = batching.Price{} // whatever the machine takes
	}
	for _, s := range all {
		logs = append(logs, book(s).records)
	}
	return logs, steps, b
}

// With drafts a log has the records of one without, whether tokens are drawn or the likeliest, with
// penalties and log-probabilities, and it takes fewer steps where text repeats itself.
func TestDraftsKeepTokens(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change        func(*Sequence)
		fewer, wanted bool // steps; drafts
	}{
		"penalties": {func(*Sequence) {}, false, false},
		"drawn": {func(s *Sequence) {
			s.params = sampling.Params{Temperature: 0.02, TopP: 1, RepetitionPenalty: 1, Seed: 11, Logprobs: 1, Bias: []sampling.Bias{{ID: 5, Value: 2}}}
		}, true, true},
		"likeliest": {func(s *Sequence) { s.params = sampling.Params{Logprobs: 2} }, true, true},
		"stopped": {func(s *Sequence) {
			s.params, s.seq.StopTokenIds = sampling.Params{Logprobs: -1}, []uint32{17, 100, 200, 300}
		}, false, false},
		"short":  {func(s *Sequence) { s.params, s.seq.MaxTokens = sampling.Params{Logprobs: -1}, 3 }, false, false},
		"scored": {func(s *Sequence) { s.seq.Score = "logprobs" }, false, false},
		"long": {func(s *Sequence) {
			s.params, s.isLong = sampling.Params{Logprobs: -1}, func(n int) bool { return n > 60 }
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, alone, _ := drafting(t, 0, 64, tc.change)
			for _, maxRows := range []int{64, 4} {
				got, steps, b := drafting(t, 8, maxRows, tc.change)
				for i := range want {
					if !same(got[i], want[i]) {
						t.Errorf("with %d rows: %v\nwant %v", maxRows, got[i], want[i])
					}
				}
				drafted := count(b.stats.metrics.DraftTokens("accepted")) + count(b.stats.metrics.DraftTokens("rejected"))
				if tc.fewer && maxRows == 64 && steps >= alone {
					t.Errorf("%d steps with drafts, %d without", steps, alone)
				}
				if tc.wanted && drafted == 0 {
					t.Error("nothing was drafted")
				}
				if b.kv.Used() != 0 {
					t.Errorf("%d pages are left", b.kv.Used())
				}
			}
		})
	}
}

// An answer that repeats itself has most of its drafts accepted.
func TestDraftsAreAccepted(t *testing.T) {
	t.Parallel()
	_, _, b := drafting(t, 8, 64, func(s *Sequence) { s.params = sampling.Params{Logprobs: -1} })
	accepted, rejected := count(b.stats.metrics.DraftTokens("accepted")), count(b.stats.metrics.DraftTokens("rejected"))
	if accepted == 0 || accepted < rejected {
		t.Errorf("%v accepted, %v rejected", accepted, rejected)
	}
}

// What a sequence cannot check is not drafted.
func TestDraftable(t *testing.T) {
	b := newBench(t, 1, 8)
	ready := func() *Sequence {
		s := b.request("r", 20, 50)
		b.add(s)
		s.ids, s.done = append(s.ids, 0, 0), 21
		return s
	}
	for name, tc := range map[string]struct {
		change func(*Sequence)
		want   int
	}{
		"as it is": {func(*Sequence) {}, 8},
		"the end of its pages": {func(s *Sequence) {
			s.ids, s.done, s.seq.MaxTokens = append(s.ids, make([]uint32, 72)...), s.done+72, 500
		}, 2},
		"nearly all tokens":   {func(s *Sequence) { s.seq.MaxTokens = 5 }, 2},
		"its prompt":          {func(s *Sequence) { s.done = 4 }, 0},
		"one row of prompt":   {func(s *Sequence) { s.ids, s.done = s.ids[:20], 19 }, 0},
		"scores":              {func(s *Sequence) { s.seq.Score = "logits" }, 0},
		"an encoder":          {func(s *Sequence) { s.seq.Source = 4 }, 0},
		"after a fault":       {func(s *Sequence) { s.suspect = true }, 0},
		"a canary":            {func(s *Sequence) { s.flow = schemas.CanaryFlow() }, 0},
		"short of a long one": {func(s *Sequence) { s.isLong = func(n int) bool { return n > 25 } }, 3},
	} {
		s := ready()
		tc.change(s)
		if got := s.draftable(8); got != tc.want {
			t.Errorf("%s: %d tokens, want %d", name, got, tc.want)
		}
	}
}

// Draft rows take what room a microbatch has, and their tokens are not those that the sequence has next.
func TestDraftRows(t *testing.T) {
	b := newBench(t, 1, 4)
	b.drafts.most = 8
	s := b.request("r", 8, 50)
	b.add(s)
	b.step(0)
	b.step(0)
	b.start()
	mb := b.flying[0]
	p := &mb.parts[0]
	if mb.rows != p.rows || p.rows < 2 || p.rows > 4 || p.drafted != p.rows-1 || len(p.tokens) != len(s.ids)+p.drafted {
		t.Fatalf("%d rows, %+v", mb.rows, p)
	}
	runs := runsOf(mb)
	s.take(sampling.Choice{ID: 7})
	if n := len(runs); n != 1 || slices.Contains(runs[0].Tokens, 7) {
		t.Errorf("runs %v", runs)
	}
}

// Choices are kept up to the first that was not drafted; what ends the answer counts if all before it were.
func TestAccept(t *testing.T) {
	end := stuck()
	for _, tc := range []struct {
		name     string
		drafted  int
		choices  []uint32
		end      *pb.Terminal
		kept     int
		rejected int
		ends     bool
	}{
		{"no draft", 0, []uint32{7}, nil, 1, 0, false},
		{"no draft, and no choice", 0, nil, end, 0, 0, true},
		{"all foreseen", 2, []uint32{7, 8, 9}, nil, 3, 0, false},
		{"one foreseen", 2, []uint32{7, 3, 9}, nil, 2, 1, false},
		{"none foreseen", 2, []uint32{3, 8, 9}, nil, 1, 2, false},
		{"the first row has no choice", 2, nil, end, 0, 0, true},
		{"a row behind foreseen ones has none", 2, []uint32{7, 8}, end, 2, 0, true},
		{"a row behind a rejected one has none", 2, []uint32{7, 3}, end, 2, 1, false},
		{"a later row behind a rejected one has none", 2, []uint32{3, 8}, end, 1, 2, false},
	} {
		p := &part{s: &Sequence{content: content{ids: []uint32{1, 2}}}, drafted: tc.drafted, tokens: []uint32{1, 2, 7, 8}, end: tc.end}
		for _, id := range tc.choices {
			p.choices = append(p.choices, sampling.Choice{ID: id})
		}
		p.accept()
		if len(p.choices) != tc.kept || p.rejected != tc.rejected || (p.end != nil) != tc.ends {
			t.Errorf("%s: %d kept, %d rejected, end %v", tc.name, len(p.choices), p.rejected, p.end)
		}
	}
}
