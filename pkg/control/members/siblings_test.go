package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// house is who is here, who looks for whom, and the queue.
type house struct {
	mu      sync.Mutex
	changed chan struct{}
	ids     string
	silent  map[string]time.Duration // of those who have not just been heard
	gone    map[string]chan struct{}
	sought  string // whom somebody looks for, one behind the other
	given   string
	sent    []string // what was told, one behind the other
	mute    bool     // nothing can be told
	cut     bool     // there is no server
}

func newHouse(ids string) *house {
	return &house{changed: make(chan struct{}), ids: ids, silent: map[string]time.Duration{}, gone: map[string]chan struct{}{}}
}

// replica is b in the house.
func (h *house) replica() *Siblings {
	return NewSiblings(SiblingSettings{
		ID: "b", Service: "attention", Members: h, Queue: h, Holdings: NewHoldings(), Watch: h.watch, Listens: func() bool { return true },
		Connected: func() bool { return !h.cut }, Send: h.send, MaxBytes: func() int64 { return 1 << 20 }, Refused: func() {},
		Logger: slog.New(slog.DiscardHandler),
	})
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

func (h *house) Silent(id string) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent[id], slices.Contains(strings.Fields(h.ids), id)
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

// Place takes a delivery for the number of its place.
func (h *house) Place(delivery string) (uint64, error) { return strconv.ParseUint(delivery, 10, 64) }

func (h *house) GiveBack(delivery string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given += " " + delivery
	return nil
}

func (h *house) send(has *pb.Holdings) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mute {
		return errors.New("mute")
	}
	h.sent = append(h.sent, fmt.Sprint(has.Deliveries))
	return nil
}

func (h *house) awaitSought(t *testing.T, want string) {
	t.Helper()
	testkit.Eventually(t, "looking for"+want, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.sought == want
	})
}

func encode(t testing.TB, deliveries ...string) []byte {
	t.Helper()
	body, err := proto.Marshal(&pb.Holdings{Deliveries: deliveries})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func tells(t testing.TB, s *Siblings, who string, deliveries ...string) {
	t.Helper()
	if err := s.take(who, encode(t, deliveries...)); err != nil {
		t.Fatal(err)
	}
}

// Each looks after the one before it, and everybody is looked after.
func TestNext(t *testing.T) {
	for _, c := range []struct{ members, gone, want string }{
		{"b", "", ""},
		{"a b c", "", "a"},
		{"b c d", "", "d"},
		{"a b c", "a", "c"},
		{"a b c", "a c", ""},
		{"a c", "", "a"}, // this one is not heard yet itself
		{"", "", ""},
	} {
		s := newHouse("").replica()
		for _, id := range strings.Fields(c.gone) {
			s.inherit(id)
		}
		if got := s.next(strings.Fields(c.members), false); got != c.want {
			t.Errorf("of %q without %q: %q, want %q", c.members, c.gone, got, c.want)
		}
	}
}

// What was told last is given back once; who is heard again is looked after again.
func TestInherit(t *testing.T) {
	s := newHouse("").replica()
	tells(t, s, "a", "1", "2")
	tells(t, s, "a", "12", "3")
	tells(t, s, "b", "7")
	if got := fmt.Sprint(s.inherit("a"), s.inherit("a"), s.inherit("b")); got != "[3 12] [] []" {
		t.Errorf("inherited %s", got)
	}
	s = newHouse("").replica()
	tells(t, s, "a", "1")
	s.inherit("a")
	if got := s.next([]string{"a", "b"}, false); got != "" {
		t.Errorf("%q is looked after, and is gone", got)
	}
	tells(t, s, "a", "4")
	select {
	case <-s.back:
	default:
		t.Error("nobody is told that a is back")
	}
	if got := s.next([]string{"a", "b"}, false); got != "a" {
		t.Errorf("%q is looked after, and a is back", got)
	}
	if s.next([]string{"b"}, true); len(s.told) != 1 {
		t.Errorf("forgotten while nobody is heard: %v", s.told)
	}
	if s.next([]string{"b"}, false); len(s.told)+len(s.gone) > 0 {
		t.Errorf("kept of those who are no members: %v, %v", s.told, s.gone)
	}
}

// Who is gone is succeeded, and then the one before it is looked after, until the
// first is back.
func TestLookAfter(t *testing.T) {
	h := newHouse("b")
	s := h.replica()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
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
	if h.given != " 1 3" {
		t.Errorf("given back:%s", h.given)
	}
}

// What a sibling has that hangs is given back once; nothing is, while nobody is heard.
func TestHang(t *testing.T) {
	h := newHouse("b")
	s := h.replica()
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { s.Run(ctx) })
	silences := func(of map[string]time.Duration) {
		h.mu.Lock()
		h.silent = of
		h.mu.Unlock()
		h.are("a b")
	}
	given := func(want string) {
		t.Helper()
		testkit.Eventually(t, "given back:"+want, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.given == want
		})
	}
	h.are("a b")
	h.awaitSought(t, " +a")
	tells(t, s, "a", "1")
	silences(map[string]time.Duration{"a": QuietAfter, "b": fresh})
	silences(map[string]time.Duration{"a": QuietAfter - 1})
	tells(t, s, "a", "2")
	silences(map[string]time.Duration{"a": QuietAfter})
	given(" 2")
	silences(map[string]time.Duration{"a": QuietAfter})
	tells(t, s, "a", "3")
	silences(map[string]time.Duration{"a": QuietAfter})
	given(" 2 3")
	cancel()
	running.Wait()
}

// What nobody can have told is counted, logged as what it is, and not believed.
func TestOnTold(t *testing.T) {
	for _, c := range []struct {
		name, who string
		body      []byte
		wrong     string
	}{
		{"as it should be", "a", encode(t, "1"), ""},
		{"of nobody", "a b", encode(t, "1"), "is no replica's id"},
		{"garbage", "a", []byte("\xff"), "decoding what a has"},
		{"too many", "a", encode(t, slices.Repeat([]string{"1"}, maxTold+1)...), "deliveries; a replica tells of 1024 at most"},
		{"of another queue", "a", encode(t, "x"), "a says what it has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logged bytes.Buffer
			refused := 0
			s := newHouse("").replica()
			s.s.Refused = func() { refused++ }
			s.s.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			s.OnTold(&nats.Msg{Subject: "test.holdings.m.attention." + c.who, Data: c.body})
			if bad := c.wrong != ""; (refused > 0) != bad || (len(s.told) == 0) != bad || !strings.Contains(logged.String(), c.wrong) {
				t.Errorf("%d refused, %d believed, log %s", refused, len(s.told), logged.String())
			}
		})
	}
}

// What is told is bounded, whoever tells it.
func FuzzHoldings(f *testing.F) {
	f.Add("a", encode(f, "1", "2"))
	f.Add("a", encode(f, "x", ""))
	f.Add("a.b", encode(f))
	f.Add("a", encode(f, slices.Repeat([]string{"1"}, maxTold+1)...))
	f.Add("", []byte("\xff"))
	f.Fuzz(func(t *testing.T, who string, body []byte) {
		s := newHouse("").replica()
		if err := s.take(who, body); err == nil && len(s.inherit(who)) > maxTold {
			t.Error("more than one may tell of")
		}
	})
}

func TestTellersAreBounded(t *testing.T) {
	s := newHouse("").replica()
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
	h := NewHoldings()
	changes := func(want bool, does func(string), name string) {
		t.Helper()
		before := h.changed()
		if does(name); (h.changed() != before) != want {
			t.Errorf("%s changes something: %v", name, !want)
		}
	}
	for _, name := range []string{"0", "1", "2", "3", "4"} {
		changes(true, h.Add, name)
	}
	changes(false, h.Add, "3")
	changes(true, h.Remove, "1")
	changes(false, h.Remove, "1")
	for _, c := range []struct {
		most, bytes int
		want        string
	}{{10, 1000, "[0 2 3 4]"}, {2, 1000, "[0 2]"}, {10, 15, "[0 2 3]"}, {10, 0, "[]"}} {
		if got := fmt.Sprint(h.oldest(c.most, c.bytes)); got != c.want {
			t.Errorf("%d in %d bytes: %s, want %s", c.most, c.bytes, got, c.want)
		}
	}
}

// What could not be told is told as soon as it can be.
func TestTold(t *testing.T) {
	h := newHouse("b")
	h.mute = true
	s := h.replica()
	s.s.Holdings.Add("5")
	if s.Tell() {
		t.Error("told, and nobody can have heard it")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	h.mu.Lock()
	h.mute = false
	h.mu.Unlock()
	testkit.Eventually(t, "told", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.sent) > 0 && h.sent[0] == "[5]"
	})
	cancel()
	running.Wait()
}
