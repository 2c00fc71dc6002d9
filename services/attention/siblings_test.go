package attention

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func tells(t testing.TB, s *siblings, who string, deliveries ...string) {
	t.Helper()
	if err := s.hear(who, encode(t, &pb.Holdings{Deliveries: deliveries})); err != nil {
		t.Fatal(err)
	}
}

// Each looks after the one before it, and everybody is looked after.
func TestNextSibling(t *testing.T) {
	for _, c := range []struct{ members, gone, want string }{
		{"b", "", ""},
		{"a b c", "", "a"},
		{"b c d", "", "d"},
		{"a b c", "a", "c"},
		{"a b c", "a c", ""},
		{"a c", "", "a"}, // this one is not heard yet itself
		{"", "", ""},
	} {
		s := newSiblings("b")
		for _, id := range strings.Fields(c.gone) {
			s.inherit(id)
		}
		if got := s.next(strings.Fields(c.members)); got != c.want {
			t.Errorf("of %q without %q: %q, want %q", c.members, c.gone, got, c.want)
		}
	}
}

// What was told last is given back once; who is heard again is looked after again.
func TestInherit(t *testing.T) {
	s := newSiblings("b")
	tells(t, s, "a", "1", "2")
	tells(t, s, "a", "2", "3")
	tells(t, s, "b", "own")
	if got := fmt.Sprint(s.inherit("a"), s.inherit("a"), s.inherit("b")); got != "[2 3] [] []" {
		t.Errorf("inherited %s", got)
	}
	s = newSiblings("b")
	tells(t, s, "a", "1")
	s.inherit("a")
	if got := s.next([]string{"a", "b"}); got != "" {
		t.Errorf("%q is looked after, and is gone", got)
	}
	tells(t, s, "a", "4")
	select {
	case <-s.back:
	default:
		t.Error("nobody is told that a is back")
	}
	if got := s.next([]string{"a", "b"}); got != "a" {
		t.Errorf("%q is looked after, and a is back", got)
	}
	if s.next([]string{"b"}); len(s.told)+len(s.gone) > 0 {
		t.Errorf("kept of those who are no members: %v, %v", s.told, s.gone)
	}
}

// house is who is here, and who looks for whom.
type house struct {
	mu      sync.Mutex
	changed chan struct{}
	ids     string
	gone    map[string]chan struct{}
	sought  string // whom somebody looks for, one behind the other
	given   string
}

func (h *house) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *house) Snapshot() (all []*pb.Member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range strings.Fields(h.ids) {
		all = append(all, &pb.Member{Id: id, Service: "attention"})
	}
	return append(all, &pb.Member{Id: "aggregator-1", Service: "aggregator"})
}

// are says who is here from now on.
func (h *house) are(ids string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = ids
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *house) watch(id string) (<-chan struct{}, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sought += " +" + id
	gone := make(chan struct{})
	h.gone[id] = gone
	return gone, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sought += " -" + id
	}
}

func (h *house) end(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.gone[id])
}

func (h *house) succeed(who string, deliveries []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given += fmt.Sprintf(" %s%v", who, deliveries)
}

func (h *house) awaitSought(t *testing.T, want string) {
	t.Helper()
	testkit.Eventually(t, "looking for"+want, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.sought == want
	})
}

// Who is gone is succeeded, and then the one before it is looked after, until the
// first is back.
func TestLookAfter(t *testing.T) {
	h := &house{changed: make(chan struct{}), gone: map[string]chan struct{}{}, ids: "b"}
	s := newSiblings("b")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.lookAfter(ctx, h, h.watch, h.succeed) })
	h.are("a b c")
	h.awaitSought(t, " +a")
	tells(t, s, "a", "1")
	tells(t, s, "c", "3")
	h.end("a")
	h.awaitSought(t, " +a -a +c")
	h.end("c")
	h.awaitSought(t, " +a -a +c -c")
	tells(t, s, "a", "2")
	h.awaitSought(t, " +a -a +c -c +a")
	cancel()
	running.Wait()
	h.awaitSought(t, " +a -a +c -c +a -a")
	if h.given != " a[1] c[3]" {
		t.Errorf("given back:%s", h.given)
	}
}

// What is told is bounded, whoever tells it.
func FuzzHoldings(f *testing.F) {
	f.Add("a", encode(f, &pb.Holdings{Deliveries: []string{"x", ""}}))
	f.Add("a.b", encode(f, &pb.Holdings{}))
	f.Add("a", encode(f, &pb.Holdings{Deliveries: make([]string, maxTold+1)}))
	f.Add("", []byte("\xff"))
	f.Fuzz(func(t *testing.T, who string, body []byte) {
		s := newSiblings("b")
		if err := s.hear(who, body); err == nil && len(s.inherit(who)) > maxTold {
			t.Error("more than one may tell of")
		}
	})
}

func TestTellersAreBounded(t *testing.T) {
	s := newSiblings("b")
	for i := range maxTellers + 1 {
		tells(t, s, fmt.Sprintf("a%d", i), "1")
	}
	tells(t, s, "a0", "2")
	if n, got := len(s.told), s.inherit("a0"); n != maxTellers || got[0] != "2" {
		t.Errorf("%d are believed, a0 has %v", n, got)
	}
}

// A replica tells what it has had longest first, and each change.
func TestOldest(t *testing.T) {
	k := newKeeper(slog.New(slog.DiscardHandler), &pulse{}, nil)
	to := &settled{}
	var held []*hold
	for i := range 5 {
		before := k.changed()
		held = append(held, k.keep(toldDelivery{fmt.Sprint(i), to}))
		if k.changed() == before {
			t.Error("no change")
		}
	}
	before := k.changed()
	if _ = held[1].Ack(); k.changed() == before {
		t.Error("no change")
	}
	for _, c := range []struct {
		most, bytes int
		want        string
	}{{10, 1000, "[0 2 3 4]"}, {2, 1000, "[0 2]"}, {10, 15, "[0 2 3]"}, {10, 0, "[]"}} {
		if got := fmt.Sprint(k.oldest(c.most, c.bytes)); got != c.want {
			t.Errorf("%d in %d bytes: %s, want %s", c.most, c.bytes, got, c.want)
		}
	}
}
