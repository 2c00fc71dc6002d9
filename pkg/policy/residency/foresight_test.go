package residency

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// layerOf is a model of one layer, so that a use is a step.
const layerOf = 6

// drawn are the sets of units that steps use, one after the other.
func drawn(t *rapid.T, room int) [][]int {
	uses := make([][]int, rapid.IntRange(1, 12).Draw(t, "steps"))
	for i := range uses {
		uses[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, layerOf-1), 1, room, rapid.ID[int]).Draw(t, "uses")
	}
	return uses
}

// next says when a unit is used at or behind a step.
func next(uses [][]int, from *int) func(unit.Unit) int {
	return func(u unit.Unit) int {
		for at := *from; at < len(uses); at++ {
			if slices.Contains(uses[at], u.Index) {
				return at
			}
		}
		return len(uses)
	}
}

// loads counts what a machine loads when each step's units are demanded together. It hints
// what comes ahead of a step if there is a hint.
func loads(order Order, o *Outlook, room int, uses [][]int, at *int, hints [][]int) (n int, err error) {
	m := New(Settings{Budget: int64(room), Order: order})
	play := func() {
		for a, ok := m.Next(); ok; a, ok = m.Next() {
			switch a.Kind {
			case Load:
				n++
				m.Loaded(a.Unit)
			case Evict:
				m.Evicted(a.Unit)
			case Refuse, Resume, Cancel, Ready:
			}
			if m.Used() > int64(room) {
				err = fmt.Errorf("%d bytes of %d are used", m.Used(), room)
			}
		}
	}
	for step, use := range uses {
		*at = step
		o.Step()
		o.At(0, -1)
		m.Rerank()
		for _, i := range hints[step] {
			if m.Phase(u(i)) == Cold {
				o.Await(u(i))
				m.Want(Want{Unit: u(i), Bytes: 1, Urgency: Hinted})
				play()
				m.Release(u(i))
			}
		}
		o.At(0, 0)
		for _, i := range use {
			m.Want(Want{Unit: u(i), Bytes: 1, Urgency: Demanded})
		}
		play()
		for _, i := range use {
			if m.Phase(u(i)) != Held {
				return n, fmt.Errorf("step %d: unit %d is %v", step, i, m.Phase(u(i)))
			}
			o.Visit(u(i))
			m.Release(u(i))
		}
		m.Rerank()
	}
	return n, err
}

// fewest is the least number of loads, by trying everything.
func fewest(room int, uses [][]int) int {
	best := map[int]int{0: 0} // loads by what is held, a bit each
	for _, use := range uses {
		need, then := 0, map[int]int{}
		for _, i := range use {
			need |= 1 << i
		}
		for holds, n := range best {
			for keep := range 1 << layerOf {
				if keep&need != need || bits(keep) > room || keep&^(holds|need) != 0 {
					continue
				}
				cost := n + bits(need&^holds)
				if had, there := then[keep]; !there || cost < had {
					then[keep] = cost
				}
			}
		}
		best = then
	}
	least := -1
	for _, n := range best {
		if least < 0 || n < least {
			least = n
		}
	}
	return least
}

func bits(set int) (n int) {
	for ; set > 0; set >>= 1 {
		n += set & 1
	}
	return n
}

// Belady loads as little as can be, and no order loads less, whether it fetches ahead or not.
func TestBelady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, layerOf).Draw(t, "room")
		uses := drawn(t, room)
		none, hints := make([][]int, len(uses)), make([][]int, len(uses))
		for i := range hints {
			hints[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, layerOf-1), 0, room, rapid.ID[int]).Draw(t, "hints")
		}
		at := 0
		least := fewest(room, uses)
		orders := map[string]func(*Outlook) Order{"belady": func(*Outlook) Order { return Belady{next(uses, &at)} }}
		for _, one := range named {
			orders[one.name] = one.of
		}
		for name, of := range orders {
			for ahead, hinted := range map[bool][][]int{false: none, true: hints} {
				o, err := NewOutlook(1, layerOf, 1, 0.9)
				if err != nil {
					t.Fatal(err)
				}
				n, err := loads(of(o), o, room, uses, &at, hinted)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if n < least || name == "belady" && !ahead && n != least {
					t.Fatalf("%s loads %d, fetching ahead: %v; the least is %d", name, n, ahead, least)
				}
			}
		}
	})
}

// The orders rank by what an outlook says.
func TestForesight(t *testing.T) {
	o, err := NewOutlook(4, 2, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	item := func(layer, index int) *Item { return &Item{Unit: unit.Expert(layer, index)} }
	o.Step()
	o.Visit(unit.Expert(0, 0))
	o.Visit(unit.Expert(0, 0))
	o.Visit(unit.Expert(3, 0))
	o.Tell(1, 0, []float32{0.1, 0.9})
	o.Tell(2, 0, []float32{0.2, 0.3})
	o.Tell(1, 3, []float32{0.8, 0.2})
	o.At(7, 1)
	for _, tc := range []struct {
		name  string
		order Order
		a, b  *Item // a is evicted first
	}{
		{"fewer visits", LFU{Outlook: o}, item(3, 0), item(0, 0)},
		{"never visited", LFU{Outlook: o}, item(2, 0), item(3, 0)},
		{"p times freq", FMoE{o}, item(0, 0), item(0, 1)},                 // 0.2 · 3 < 0.9 · 1
		{"nothing told", FMoE{o}, item(2, 0), item(0, 0)},                 // 1/2 · 1
		{"later layer", NextUse{Outlook: o}, item(0, 1), item(3, 0)},      // behind, in the next step
		{"longer for a use", NextUse{Outlook: o}, item(3, 1), item(0, 1)}, // 2 layers for 0.2, 3 for 0.9
	} {
		if tc.order.EvictFirst(tc.a, tc.b) >= 0 || tc.order.EvictFirst(tc.b, tc.a) <= 0 {
			t.Errorf("%s: %v is not evicted before %v", tc.name, tc.a.Unit, tc.b.Unit)
		}
	}
	if f := (FMoE{o}); f.FetchFirst(item(3, 0), item(0, 1)) >= 0 { // 0.8/2 and 0.9/3
		t.Error("the nearer layer is not fetched first")
	}
	n := NextUse{Outlook: o}
	if n.FetchFirst(item(3, 0), item(0, 1)) >= 0 { // 0.8/6 and 0.9/7
		t.Error("of experts that are nearly as probable the nearer is not fetched first")
	}
	if n.FetchFirst(item(0, 1), item(3, 1)) >= 0 { // 0.9/7 and 0.2/6
		t.Error("what is more probable is not fetched first")
	}
	o.At(7, -1)
	if f := (FMoE{o}); f.FetchFirst(item(0, 1), item(3, 0)) >= 0 { // 0.9/1 and 0.8/4
		t.Error("the order does not follow l_now")
	}
	o.End(1)
	if p, ok := o.Chance(unit.Expert(0, 1)); !ok || p != float64(float32(0.3)) {
		t.Errorf("the other sequence gives %v, %v", p, ok)
	}
	if _, ok := o.Chance(unit.Expert(3, 0)); ok {
		t.Error("a sequence that has ended still counts")
	}
}
