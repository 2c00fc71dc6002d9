package layer

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// An aggregator that did not answer is the last choice, but a choice.
func TestSuspects(t *testing.T) {
	p := Peers{aggregators: []string{"a", "b"}, gateRoster: &fakeRoster{steady: true}, aggregatorRoster: &fakeRoster{steady: true}}
	for mb, want := range []string{"a", "b", "a"} {
		if got, _, _ := p.aggregatorFor(uint64(mb), 0); got != want {
			t.Errorf("microbatch %d: %s", mb, got)
		}
	}
	p.suspect("a")
	for mb := range uint64(3) {
		if got, _, _ := p.aggregatorFor(mb, 0); got != "b" {
			t.Errorf("microbatch %d: %s is suspected", mb, got)
		}
	}
	p.suspect("b")
	if got, _, ok := p.aggregatorFor(0, 0); !ok || got != "a" {
		t.Errorf("all are suspected: %q, %v", got, ok)
	}
	p.suspects["a"] = time.Now().Add(-time.Second)
	if got, _, _ := p.aggregatorFor(1, 0); got != "a" {
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
		p := Peers{aggregatorRoster: tc.roster}
		p.update([]*pb.Member{
			{Id: "new", Service: "aggregator", Ready: true, RowSums: true}, {Id: "old", Service: "aggregator", Ready: true},
		})
		if id, sums, ok := p.aggregatorFor(tc.turn, 0); id != tc.want || sums != tc.sums || !ok {
			t.Errorf("%s: %q, %v, %v; want %q, %v", tc.name, id, sums, ok, tc.want, tc.sums)
		}
	}
}

// Gates that were named and did not answer are avoided, too.
func TestSuspectedGates(t *testing.T) {
	p := Peers{gateRoster: &fakeRoster{heard: ready("a", "b")}, aggregatorRoster: &fakeRoster{}}
	p.suspect("aggregator", "")
	p.suspect("aggregator", "a")
	for turn := range uint64(3) {
		if first, again := p.gate(turn, 0), p.gate(turn, 1); first != "b" || again != "b" {
			t.Errorf("turn %d: %s, and then %s; a is suspected", turn, first, again)
		}
	}
	if len(p.suspects) != 2 {
		t.Errorf("%v", p.suspects)
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
		p := Peers{gateRoster: &fakeRoster{steady: tc.steady, heard: tc.heard}}
		if got := p.gate(tc.microbatch, tc.attempt); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// While one gate serves rows go to it by name, and to any of several.
func TestOnlyGate(t *testing.T) {
	p := Peers{gateRoster: &fakeRoster{steady: true}, aggregatorRoster: &fakeRoster{steady: true}}
	gate := func(id string, ready, draining bool) *pb.Member {
		return &pb.Member{Id: id, Service: "gate", Ready: ready, Draining: draining}
	}
	for _, tc := range []struct {
		name string
		all  []*pb.Member
		want string
	}{
		{"none", nil, ""},
		{"one", []*pb.Member{gate("a", true, false)}, "a"},
		{"another that is not ready", []*pb.Member{gate("a", true, false), gate("b", false, false)}, "a"},
		{"both", []*pb.Member{gate("a", true, false), gate("b", true, false)}, ""},
		{"one is leaving", []*pb.Member{gate("a", true, true), gate("b", true, false)}, "b"},
		{"it is not ready either", []*pb.Member{gate("b", false, false)}, ""},
	} {
		p.update(tc.all)
		if got := p.gate(3, 0); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// While an aggregator may hang, only those that are heard collect.
func TestAggregatorWhileOneHangs(t *testing.T) {
	p := Peers{aggregators: []string{"a", "b", "c"}, aggregatorRoster: &fakeRoster{heard: ready("c", "a")}}
	for mb := range uint64(6) {
		if got, _, ok := p.aggregatorFor(mb, 0); !ok || got == "b" {
			t.Errorf("microbatch %d: %q", mb, got)
		}
	}
	p.aggregatorRoster = &fakeRoster{}
	if _, _, ok := p.aggregatorFor(0, 0); !ok {
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
	d := testdeployment.Open(t)
	y, r := newFakeLayer(t, 8)
	y.x.enlist(1, r)
	l := &Layer{d: d, Exchange: y.x}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	back := d.Conn.Reconnection()
	following.Go(func() { l.FollowServer(ctx, back) })
	defer following.Wait()
	defer cancel()
	if err := d.Conn.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"hurried", "hurried again"} {
		testkit.Eventually(t, what, func() bool { return len(r.hurried) > 0 })
		<-r.hurried
	}
}

// A replica behind this one that falls silent hurries what may be with it, once.
func TestSilence(t *testing.T) {
	y, r := newFakeLayer(t, 8)
	y.x.enlist(1, r)
	gates := &fakeRoster{}
	l := &Layer{Exchange: y.x, Peers: &Peers{gateRoster: gates, aggregatorRoster: &fakeRoster{}, expertRoster: &fakeRoster{}}}
	for i, step := range []struct {
		silences uint64
		want     int
	}{{0, 0}, {1, 1}, {1, 0}, {2, 1}} {
		gates.silences = step.silences
		if l.See(nil); len(r.hurried) != step.want {
			t.Errorf("look %d: hurried %d times, want %d", i, len(r.hurried), step.want)
		}
		for len(r.hurried) > 0 {
			<-r.hurried
		}
	}
}
