package residency

import (
	"fmt"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

func u(n int) unit.Unit { return unit.Expert(0, n) }

// script runs a transcript: lines of an event, "->", and the actions that it brings.
// Units have 10 bytes.
func script(t *testing.T, m *Machine, lines string) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		event, want, _ := strings.Cut(line, "->")
		tell(t, m, strings.Fields(event))
		if got := told(m); got != strings.TrimSpace(want) {
			t.Fatalf("%q brings %q", strings.TrimSpace(line), got)
		}
	}
}

// told are the actions that are to be done, with the room of refusals.
func told(m *Machine) string {
	var all []string
	for a, ok := m.Next(); ok; a, ok = m.Next() {
		one := fmt.Sprintf("%v %d", a.Kind, a.Unit.Index)
		if a.Kind == Refuse {
			one += fmt.Sprintf(" of %d", a.Room)
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

func tell(t *testing.T, m *Machine, event []string) {
	t.Helper()
	var n, priority int
	if _, err := fmt.Sscan(event[1], &n); err != nil {
		t.Fatal(err)
	}
	if len(event) > 2 {
		if _, err := fmt.Sscan(event[2], &priority); err != nil {
			t.Fatal(err)
		}
	}
	want := func(urgency Urgency) {
		m.Want(Want{Unit: u(n), Bytes: 10, Urgency: urgency, Priority: int64(priority)})
	}
	known := map[string]func(){
		"hint": func() { want(Hinted) }, "plan": func() { want(Planned) }, "demand": func() { want(Demanded) },
		"release": func() { m.Release(u(n)) }, "loaded": func() { m.Loaded(u(n)) }, "failed": func() { m.Failed(u(n)) },
		"stopped": func() { m.Stopped(u(n)) }, "evict": func() { m.Evict(u(n)) }, "evicted": func() { m.Evicted(u(n)) },
		"used": func() { m.InUse(u(n)) }, "touch": func() { m.Touch(u(n)) },
		"piece": func() { m.Piece(u(n)) },
	}
	do := known[event[0]]
	if do == nil {
		t.Fatalf("there is no event %q", event)
	}
	do()
}

func TestTranscripts(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Settings
		text string
	}{
		{"held", Settings{}, `
			plan 1 -> load 1
			loaded 1 -> ready 1
			plan 1 -> ready 1
			release 1 ->
			evict 1 ->
			release 1 ->
			evict 1 -> evict 1
			evicted 1 ->
			evict 1 ->`},
		{"by priority", Settings{}, `
			plan 1 -> load 1
			plan 2 5 ->
			plan 3 7 ->
			plan 4 5 ->
			loaded 1 -> ready 1, load 3
			loaded 3 -> ready 3, load 2
			loaded 2 -> ready 2, load 4`},
		{"newest", Settings{Order: Newest{}}, `
			plan 1 -> load 1
			plan 2 5 ->
			plan 3 5 ->
			plan 4 1 ->
			plan 2 5 ->
			loaded 1 -> ready 1, load 2
			loaded 2 -> ready 2, load 3`},
		{"lanes", Settings{Loads: 2}, `
			plan 1 -> load 1
			plan 2 -> load 2
			plan 3 ->
			loaded 2 -> ready 2, load 3`},
		{"evict the least recent", Settings{Budget: 20}, `
			plan 1 -> load 1
			loaded 1 -> ready 1
			plan 2 -> load 2
			loaded 2 -> ready 2
			release 2 ->
			release 1 ->
			touch 2 ->
			plan 3 -> evict 1
			evicted 1 -> load 3`},
		{"refuse", Settings{Budget: 25}, `
			plan 1 -> load 1
			loaded 1 -> ready 1
			plan 2 ->  load 2
			plan 3 -> refuse 3 of 5
			release 1 ->
			plan 3 -> evict 1
			evicted 1 ->
			loaded 2 -> ready 2, load 3`},
		{"in use", Settings{Budget: 20}, `
			plan 1 -> load 1
			loaded 1 -> ready 1
			plan 2 -> load 2
			loaded 2 -> ready 2
			release 1 ->
			release 2 ->
			plan 3 -> evict 1
			used 1 -> evict 2
			used 2 -> refuse 3 of 0
			plan 3 -> evict 1
			used 1 -> evict 2
			evicted 2 -> load 3`},
		{"two that wait for room", Settings{Budget: 20}, `
			plan 1 -> load 1
			loaded 1 -> ready 1
			plan 2 -> load 2
			loaded 2 -> ready 2
			release 1 ->
			release 2 ->
			plan 3 -> evict 1
			plan 4 -> evict 2
			evicted 2 -> load 3
			plan 5 -> refuse 5 of 0
			release 4 ->
			evicted 1 ->`},
		{"wanted while it is evicted", Settings{Budget: 10}, `
			plan 1 -> load 1
			loaded 1 -> ready 1
			release 1 ->
			plan 2 -> evict 1
			plan 1 ->
			evicted 1 -> refuse 1 of 0, load 2
			loaded 2 -> ready 2
			release 2 ->
			evict 2 -> evict 2
			demand 2 ->
			used 2 -> ready 2
			release 2 ->
			evict 2 -> evict 2
			demand 2 ->
			evicted 2 -> load 2`},
		{"cancel", Settings{Budget: 20}, `
			plan 1 -> load 1
			plan 2 ->
			release 2 ->
			release 1 -> cancel 1
			plan 1 ->
			stopped 1 -> load 1
			release 1 -> cancel 1
			plan 2 ->
			plan 3 -> refuse 3 of 0
			stopped 1 -> load 2
			release 2 -> cancel 2
			loaded 2 ->
			plan 2 -> ready 2`},
		{"fail", Settings{Budget: 10}, `
			plan 1 -> load 1
			failed 1 ->
			release 1 ->
			plan 2 -> load 2`},
		{"a miss passes", Settings{}, `
			hint 1 -> load 1
			hint 2 ->
			piece 1 ->
			demand 3 ->
			piece 1 -> load 3
			demand 4 ->
			piece 3 ->
			loaded 3 -> ready 3, load 4
			loaded 4 -> ready 4, resume 1
			plan 5 ->
			piece 1 -> load 5
			release 1 -> cancel 1
			loaded 5 -> ready 5, load 2
			stopped 1 ->`},
		{"a prefetch is promoted", Settings{}, `
			hint 1 -> load 1
			demand 2 ->
			piece 1 -> load 2
			demand 1 ->
			piece 2 ->
			loaded 2 -> ready 2, resume 1
			hint 3 ->
			hint 4 ->
			demand 4 ->
			loaded 1 -> ready 1, load 4
			loaded 4 -> ready 4, load 3`},
		{"nothing runs beside a miss", Settings{Loads: 2}, `
			hint 1 -> load 1
			demand 2 -> load 2
			piece 1 ->
			hint 3 ->
			loaded 2 -> ready 2, resume 1, load 3`},
		{"hints take room when they begin", Settings{Budget: 20}, `
			plan 1 -> load 1
			loaded 1 -> ready 1
			release 1 ->
			hint 2 -> load 2
			hint 3 ->
			hint 4 ->
			loaded 2 -> ready 2, evict 1
			evicted 1 -> load 3
			loaded 3 -> ready 3, refuse 4 of 0`},
		{"events that do not fit", Settings{}, `
			loaded 1 ->
			failed 1 ->
			stopped 1 ->
			evicted 1 ->
			used 1 ->
			release 1 ->
			piece 1 ->
			touch 1 ->
			plan 1 -> load 1
			evicted 1 ->
			evict 1 ->
			loaded 1 -> ready 1
			loaded 1 ->
			failed 1 ->`},
	} {
		t.Run(tc.name, func(t *testing.T) { script(t, New(tc.s), tc.text) })
	}
}

// What was found tells hits, late ones and misses.
func TestFound(t *testing.T) {
	m := New(Settings{})
	want := Want{Unit: u(1), Bytes: 1, Urgency: Demanded}
	for _, tc := range []struct {
		found Phase
		then  func(unit.Unit)
	}{
		{Cold, func(unit.Unit) {}}, {Loading, m.Loaded}, {Held, func(unit.Unit) {}},
	} {
		if got := m.Want(want); got != tc.found {
			t.Errorf("found %v, want %v", got, tc.found)
		}
		tc.then(u(1))
	}
	if m.References(u(1)) != 3 || m.Bytes(u(1)) != 1 || m.Used() != 1 || m.Phase(u(1)) != Held {
		t.Errorf("%d references, %d bytes", m.References(u(1)), m.Bytes(u(1)))
	}
}

// due is an order that knows when units are needed: a copy that is not yet due goes for
// rows, and not for another prefetch.
type due struct {
	LRU
	next map[int]int
}

func (d due) EvictFirst(a, b *Item) int  { return d.next[b.Unit.Index] - d.next[a.Unit.Index] }
func (d due) FetchFirst(a, b *Item) int  { return d.next[a.Unit.Index] - d.next[b.Unit.Index] }
func (d due) Yields(idle, to *Item) bool { return idle.Urgency != Hinted || to.Urgency == Demanded }

func TestOrders(t *testing.T) {
	d := due{next: map[int]int{1: 1, 2: 2, 3: 3, 4: 4}}
	m := New(Settings{Budget: 20, Order: d})
	script(t, m, `
		hint 1 -> load 1
		loaded 1 -> ready 1
		hint 2 -> load 2
		loaded 2 -> ready 2
		release 1 ->
		release 2 ->
		hint 3 -> refuse 3 of 0
		plan 3 -> refuse 3 of 0
		demand 3 -> evict 2
		evicted 2 -> load 3
		loaded 3 -> ready 3
		release 3 ->
		hint 4 -> evict 3
		evicted 3 -> load 4
		loaded 4 -> ready 4
		release 4 ->`)
	d.next[1] = 9
	m.Rerank()
	script(t, m, `
		demand 2 -> evict 1
		evicted 1 -> load 2
		hint 5 ->
		hint 6 ->`)
	d.next[5], d.next[6] = 7, 6
	m.Rerank()
	script(t, m, `
		loaded 2 -> ready 2, refuse 6 of 0, refuse 5 of 0`)
}

// What fits is not refused, and the reverse.
func TestFits(t *testing.T) {
	m := New(Settings{Budget: 20})
	fits := func(n int, bytes int64) bool { return m.Fits(Want{Unit: u(n), Bytes: bytes}) }
	script(t, m, `
		plan 1 -> load 1
		loaded 1 -> ready 1`)
	if !fits(1, 99) || !fits(2, 10) || fits(2, 11) {
		t.Error("beside one that is held")
	}
	m.Release(u(1))
	if !fits(2, 20) || fits(2, 21) {
		t.Error("in the place of one that is idle")
	}
}

func TestNamed(t *testing.T) {
	for _, name := range Names() {
		if o, err := Named(name, nil); err != nil || o == nil {
			t.Error(name, err)
		}
	}
	if _, err := Named("lur", nil); err == nil || err.Error() != `there is no order of eviction "lur"; there is lru, lfu, fmoe, next-use` {
		t.Error(err)
	}
}
