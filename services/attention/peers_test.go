package attention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// An aggregator that did not answer is the last choice, but a choice.
func TestSuspects(t *testing.T) {
	p := peers{aggregators: []string{"a", "b"}, gateRoster: &fakeRoster{steady: true}, aggregatorRoster: &fakeRoster{steady: true}}
	for mb, want := range []string{"a", "b", "a"} {
		if got, _, _ := p.shard(uint64(mb), 0); got != want {
			t.Errorf("microbatch %d: %s", mb, got)
		}
	}
	p.suspect("a")
	for mb := range uint64(3) {
		if got, _, _ := p.shard(mb, 0); got != "b" {
			t.Errorf("microbatch %d: %s is suspected", mb, got)
		}
	}
	p.suspect("b")
	if got, _, ok := p.shard(0, 0); !ok || got != "a" {
		t.Errorf("all are suspected: %q, %v", got, ok)
	}
	p.suspects["a"] = time.Now().Add(-time.Second)
	if got, _, _ := p.shard(1, 0); got != "a" {
		t.Errorf("%s, when the suspicion of a is over", got)
	}
}

// Sums of whole rows are asked for where the aggregator of the rows takes them: one of an older
// version does not say so, and one that has just come may be of any.
func TestRowSumsOfAggregators(t *testing.T) {
	steady, other := &fakeRoster{steady: true}, &fakeRoster{heard: ready("other")}
	for _, tc := range []struct {
		name   string
		roster roster
		turn   uint64
		want   string
		sums   bool
	}{
		{"one that takes them", steady, 0, "new", true},
		{"an old one", steady, 1, "old", false},
		{"a third one is heard alone", other, 0, "other", false},
	} {
		p := peers{aggregatorRoster: tc.roster}
		p.update([]*pb.Member{
			{Id: "new", Service: "aggregator", Ready: true, RowSums: true}, {Id: "old", Service: "aggregator", Ready: true},
		})
		if id, sums, ok := p.shard(tc.turn, 0); id != tc.want || sums != tc.sums || !ok {
			t.Errorf("%s: %q, %v, %v; want %q, %v", tc.name, id, sums, ok, tc.want, tc.sums)
		}
	}
}

// Gates that were named and did not answer are avoided, too.
func TestSuspectedGates(t *testing.T) {
	p := peers{gateRoster: &fakeRoster{heard: ready("a", "b")}, aggregatorRoster: &fakeRoster{}}
	p.suspect("shard", "")
	p.suspect("shard", "a")
	for turn := range uint64(3) {
		if first, again := p.gate(turn, 0), p.gate(turn, 1); first != "b" || again != "b" {
			t.Errorf("turn %d: %s, and then %s; a is suspected", turn, first, again)
		}
	}
	if len(p.suspects) != 2 {
		t.Errorf("%v", p.suspects)
	}
}

// What an accepted request's sequence meets never makes it vanish.
func TestUnadmitted(t *testing.T) {
	s := &Service{d: &deployment.Deployment{Logger: slog.New(slog.DiscardHandler)}}
	again := bus.RetryAfter(admitRetry, nil)
	for _, c := range []struct {
		err, want error
	}{
		{nil, nil},
		{fmt.Errorf("claiming: %w", tokenlog.ErrFinished), nil},
		{fmt.Errorf("stopping: %w", context.Canceled), context.Canceled},
		{bus.Poison(errUnreadable), errUnreadable},
		{bus.RetryAfter(time.Second, errTheirs), errTheirs},
		{fmt.Errorf("claiming: %w", tokenlog.ErrForeign), tokenlog.ErrForeign},
	} {
		if got := s.unadmitted(t.Context(), c.err); !errors.Is(got, c.want) {
			t.Errorf("%v became %v", c.err, got)
		}
	}
	if got := s.unadmitted(t.Context(), errors.New("no answer")); fmt.Sprintf("%T", got) != fmt.Sprintf("%T", again) {
		t.Errorf("an unknown error became %T", got)
	}
}

// A sequence that has ended is settled: one whose steps panic is given up.
func TestFinished(t *testing.T) {
	s := &Service{d: &deployment.Deployment{Logger: slog.New(slog.DiscardHandler)}}
	b := realBench(t, 8)
	whole, faulty := b.ask("a", 3, 1, ""), b.ask("b", 3, 1, "")
	b.add(whole)
	b.add(faulty)
	faulty.fault = &panicError{"index out of range"}
	s.finished(whole)
	s.finished(faulty)
	s.tasks.Wait()
	if p := delivered(whole); p.acks != 1 || p.ended != nil {
		t.Errorf("%+v", p)
	}
	if p := delivered(faulty); p.acks != 0 || !bus.IsGivenUp(p.ended) {
		t.Errorf("%+v", p)
	}
}

// Why a sequence is given up follows from what its admission met.
func TestRefusalReasons(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bus.Reason
	}{
		{&bus.PanicError{Value: "index out of range"}, bus.Panicked},
		{fmt.Errorf("%w: 8 times", tokenlog.ErrFruitless), bus.Deliveries},
		{unresumable(fmt.Errorf("%w: 2 of them", tokenlog.ErrCrashed)), bus.Crashed},
		{tokenlog.ErrNotWhole, bus.Refused},
	} {
		if got := (&refusedError{nil, codeInternal, tc.err}).reason(); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}

// fakeRoster is a roster that the test decides on.
type fakeRoster struct {
	steady   bool
	doubts   int
	silences uint64
	heard    []*pb.Member
}

func (f *fakeRoster) Doubt()              { f.doubts++ }
func (f *fakeRoster) Steady() bool        { return f.steady }
func (f *fakeRoster) Silences() uint64    { return f.silences }
func (f *fakeRoster) Heard() []*pb.Member { return f.heard }

func ready(ids ...string) (all []*pb.Member) {
	for _, id := range ids {
		all = append(all, &pb.Member{Id: id, Ready: true})
	}
	return all
}

// Rows go to any gate while all are heard, else to one that is, and lost ones
// to another one with each attempt.
func TestGate(t *testing.T) {
	leaving := &pb.Member{Id: "c", Ready: true, Draining: true}
	for _, tc := range []struct {
		name       string
		steady     bool
		heard      []*pb.Member
		microbatch uint64
		attempt    uint32
		want       string
	}{
		{"all are heard", true, ready("a", "b"), 1, 0, ""},
		{"one is quiet", false, ready("a", "b"), 2, 0, "a"},
		{"and other rows", false, ready("a", "b"), 3, 0, "b"},
		{"all are quiet", false, nil, 3, 0, ""},
		{"lost", true, ready("a", "b"), 3, 1, "a"},
		{"lost again", true, ready("a", "b"), 3, 2, "b"},
		{"lost thrice", true, ready("a", "b"), 3, 3, "a"},
		{"one is leaving", true, append(ready("a"), leaving), 3, 2, "a"},
	} {
		p := peers{gateRoster: &fakeRoster{steady: tc.steady, heard: tc.heard}}
		if got := p.gate(tc.microbatch, tc.attempt); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// While an aggregator may hang, only those that are heard collect.
func TestShardWhileOneHangs(t *testing.T) {
	p := peers{aggregators: []string{"a", "b", "c"}, aggregatorRoster: &fakeRoster{heard: ready("c", "a")}}
	for mb := range uint64(6) {
		if got, _, ok := p.shard(mb, 0); !ok || got == "b" {
			t.Errorf("microbatch %d: %q", mb, got)
		}
	}
	p.aggregatorRoster = &fakeRoster{}
	if _, _, ok := p.shard(0, 0); !ok {
		t.Error("nobody collects while all are quiet")
	}
}

// Gates that go over to a newer plan are news, and nothing else is.
func TestReplanned(t *testing.T) {
	newest := newestPlans{}
	for i, step := range []struct {
		versions map[uint32]uint64
		want     bool
	}{
		{map[uint32]uint64{0: 1}, true}, {map[uint32]uint64{0: 1}, false}, {map[uint32]uint64{0: 1, 3: 1}, true},
		{map[uint32]uint64{0: 2, 3: 1}, true}, {map[uint32]uint64{0: 1, 3: 1}, false}, {nil, false},
	} {
		if got := newest.update(step.versions); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

// What was lost with a server that is back goes out again, more than once: the services
// behind may come back later.
func TestServerIsBack(t *testing.T) {
	s := New(testdeployment.Open(t), Config{MaxSequences: 1})
	y, r := newFakeLayer(t, 8)
	y.x.waiters[1] = r
	s.exchange = y.x
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	back := s.d.Conn.Reconnection()
	following.Go(func() { s.followServer(ctx, back) })
	defer following.Wait()
	defer cancel()
	if err := s.d.Conn.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"hurried", "hurried again"} {
		testkit.Eventually(t, what, func() bool { return len(r.hurried) > 0 })
		<-r.hurried
	}
}
