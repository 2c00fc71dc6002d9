package engine

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const sharedIDs = 3*kvcache.PagePositions + 7 // of a prompt that requests share

// sharing is a bench whose sequences share prefixes.
func sharing(t *testing.T) *bench {
	t.Helper()
	b := realBench(t, 64)
	if b.prefix.shared = b.kv.SharePrefixes(); !b.prefix.shared {
		t.Fatal("nothing is shared")
	}
	return b
}

// answer serves one request with the shared prompt to its end, and returns its log.
func (b *bench) answer(id string, change func(*Sequence)) []*pb.Record {
	s := b.ask("r", sharedIDs, 40, "")
	s.seq.RequestId = id
	change(s)
	b.add(s)
	for b.compute() {
	}
	return book(s).records
}

func (b *bench) cached() float64 {
	return count(b.stats.metrics.PrefixTokens("cached"))
}

// A request whose prompt another one had begins behind it, and has the tokens that it would have had
// alone; so does one that goes on with another one's answer.
func TestPrefixKeepsTokens(t *testing.T) {
	t.Parallel()
	as := func(*Sequence) {}
	want := realBench(t, 64).answer("r", as)
	b := sharing(t)
	for i, cached := range []float64{0, 3 * kvcache.PagePositions, 6 * kvcache.PagePositions} {
		got := b.answer("r", as)
		if told := got[0].GetToken().GetCached(); told != int32(min(i, 1)*3*kvcache.PagePositions) {
			t.Errorf("request %d tells of %d cached", i, told)
		}
		if !same(got, want) || b.cached() != cached {
			t.Errorf("request %d: %v cached, want %v; %v\nwant %v", i, b.cached(), cached, got, want)
		}
	}
	further := func(s *Sequence) {
		for _, r := range want {
			if token := r.GetToken(); token != nil {
				s.seq.PromptIds = append(s.seq.PromptIds, token.Id)
			}
		}
		s.ids = append(s.ids[:0], s.seq.PromptIds...)
	}
	before := b.cached()
	if got := b.answer("further", further); !same(got, realBench(t, 64).answer("further", further)) || b.cached()-before != 4*kvcache.PagePositions {
		t.Errorf("%v cached of an answer: %v", b.cached()-before, got)
	}
	if b.kv.Used() != 0 {
		t.Errorf("%d pages are left", b.kv.Used())
	}
}

// What must not be shared is not.
func TestPrefixOfOwn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]func(*Sequence){
		"of another tenant": func(s *Sequence) { s.flow = schemas.Flow{Tenant: "other", Class: schemas.ClassNormal} },
		"of a canary":       func(s *Sequence) { s.flow = schemas.CanaryFlow() },
		"scored":            func(s *Sequence) { s.seq.Score, s.seq.MaxTokens = "logprobs", 2 },
		"with fates":        func(s *Sequence) { s.past.runs = append(s.past.runs, pastRun{1 << 20, &pb.Fates{Rows: 1}}) },
		"with segments":     func(s *Sequence) { s.seq.TokenTypes = make([]uint32, sharedIDs) },
		"another first id":  func(s *Sequence) { s.ids[0], s.seq.PromptIds[0] = 77, 77 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := sharing(t)
			b.answer("first", func(*Sequence) {})
			got := b.answer("r", tc)
			if b.cached() != 0 || !same(got, realBench(t, 64).answer("r", tc)) {
				t.Errorf("%v cached: %v", b.cached(), got)
			}
		})
	}
}

// A sequence that becomes a long one computes all of its positions anew, and others keep what it shared.
func TestPrefixOfLongOnes(t *testing.T) {
	t.Parallel()
	b, short := sharing(t), func(*Sequence) {}
	want := b.answer("r", short)
	long := func(s *Sequence) { s.isLong = func(n int) bool { return n > sharedIDs+4 } }
	if got := b.answer("long", long); !same(got, realBench(t, 64).answer("long", long)) {
		t.Errorf("the long one: %v", got)
	}
	if got := b.answer("r", short); !same(got, want) {
		t.Errorf("behind a long one: %v\nwant %v", got, want)
	}
}

// A sequence that stepped aside begins with its own pages again, as far as others left them.
func TestPrefixAfterAside(t *testing.T) {
	t.Parallel()
	b := sharing(t)
	s := b.ask("r", sharedIDs, 40, "")
	s.params = sampling.Params{Logprobs: -1}
	b.add(s)
	for range 3 {
		b.compute()
	}
	b.stepAside(s)
	if s.done != 0 {
		t.Fatalf("%d positions without pages", s.done)
	}
	b.serve()
	if s.done != 3*kvcache.PagePositions {
		t.Errorf("it begins with %d positions", s.done)
	}
	for b.compute() {
	}
	if b.kv.Used() != 0 || book(s).end() == nil {
		t.Errorf("%d pages are left, ended %v", b.kv.Used(), book(s).end())
	}
}
