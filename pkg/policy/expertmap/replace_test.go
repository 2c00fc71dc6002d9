package expertmap

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// rdy is the redundancy of two maps, in float64 and as printed.
func rdy(s Settings, a, b Map) float64 {
	cos := func(x, y []float32) float64 {
		var dot, xx, yy float64
		for i := range x {
			dot, xx, yy = dot+float64(x[i])*float64(y[i]), xx+float64(x[i])*float64(x[i]), yy+float64(y[i])*float64(y[i])
		}
		if xx == 0 || yy == 0 {
			return 0
		}
		return dot / math.Sqrt(xx*yy)
	}
	w := float64(s.Distance) / float64(s.Layers)
	if s.Embedding == 0 {
		w = 0
	}
	return w*cos(a.Embedding, b.Embedding) + (1-w)*cos(a.Probabilities, b.Probabilities)
}

// reference keeps maps in a list of slots, as the rules say.
type reference struct {
	Settings
	maps  []Map
	added []int
	uses  []int
	clock int
}

func (f *reference) put(slot int, m Map) {
	f.clock++
	f.maps[slot], f.added[slot], f.uses[slot] = m, f.clock, 0
}

func (f *reference) add(batch []Map) {
	taken := map[int]bool{}
	for _, m := range batch {
		if f.Replace == SkipRedundant && slices.ContainsFunc(f.maps, func(o Map) bool { return float32(rdy(f.Settings, m, o)) >= f.Redundancy }) {
			continue
		}
		slot := len(f.maps)
		if slot < f.Capacity {
			f.maps, f.added, f.uses = append(f.maps, Map{}), append(f.added, 0), append(f.uses, 0)
		} else {
			slot = f.victim(m, taken)
		}
		f.put(slot, m)
		taken[slot] = true
	}
}

// victim is the slot of the highest worth, the oldest of equal ones.
func (f *reference) victim(m Map, taken map[int]bool) int {
	worth := func(slot int) float64 {
		switch f.Replace {
		case Redundant:
			return rdy(f.Settings, m, f.maps[slot])
		case LeastUseful:
			return -float64(1+f.uses[slot]) / float64(1+f.clock-f.added[slot])
		}
		return 0
	}
	best := -1
	for slot := range f.maps {
		if !taken[slot] && (best < 0 || worth(slot) > worth(best) || worth(slot) == worth(best) && f.added[slot] < f.added[best]) {
			best = slot
		}
	}
	if f.Replace == KCentre {
		return f.centre(m, taken)
	}
	return best
}

// centre is the older of the closest two maps, of which the new one may be one.
func (f *reference) centre(m Map, taken map[int]bool) int {
	best, top := -1, math.Inf(-1)
	for a := range f.maps {
		if taken[a] {
			continue
		}
		if is := rdy(f.Settings, m, f.maps[a]); is > top {
			best, top = a, is
		}
	}
	for a := range f.maps {
		for b := range f.maps {
			if a == b || taken[a] {
				continue
			}
			if is := rdy(f.Settings, f.maps[a], f.maps[b]); is > top+1e-9 {
				best, top = a, is
				if !taken[b] && f.added[b] < f.added[a] {
					best = b
				}
			}
		}
	}
	return best
}

// Every rule keeps what a plain reading of it keeps.
func TestReplacement(t *testing.T) {
	for _, rule := range Replacements() {
		t.Run(string(rule), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := drawSettings(t, 12)
				c.Replace, c.Maps, c.Embeddings, c.Shared, c.Redundancy = rule, F32, F32, false, 0.8
				c.Experts = max(c.Experts, 4)
				s, r := mustNewRapid(t, c), seeded(c.Shape, rapid.Uint64().Draw(t, "seed"))
				f := &reference{Settings: c}
				for range rapid.IntRange(1, 8).Draw(t, "batches") {
					list := r.many(rapid.IntRange(1, c.Capacity).Draw(t, "maps"))
					mustAdd(t, s, "a", list...)
					f.add(list)
					q := s.Begin("a")
					if got, ok := q.Layer(1, r.row()); ok {
						f.uses[got.Index]++
					}
					f.compare(t, s)
				}
			})
		})
	}
}

// compare wants equal maps in equal slots.
func (f *reference) compare(t *rapid.T, s *Store) {
	p := s.parts["a"]
	if p.count != len(f.maps) {
		t.Fatalf("%d maps, want %d", p.count, len(f.maps))
	}
	for slot := range f.maps {
		if got := p.mapIn(slot); !slices.Equal(got.Probabilities, f.maps[slot].Probabilities) || !slices.Equal(got.Embedding, f.maps[slot].Embedding) {
			t.Fatalf("slot %d has another map; counts %+v", slot, s.Counts())
		}
	}
}

// Of two equal new maps of one batch, each replaces a map of its own.
func TestOwnVictims(t *testing.T) {
	s, r := mustNew(t, settings(small, 4)), seeded(small, 1)
	old := r.many(4)
	mustAdd(t, s, "a", old...)
	mustAdd(t, s, "a", old[1], old[1], old[1])
	if c := s.Counts(); c.Replaced != 3 || s.Len("a") != 4 {
		t.Errorf("%+v with %d maps", c, s.Len("a"))
	}
	same := 0
	for _, m := range s.All() {
		if slices.Equal(m.Embedding, old[1].Embedding) {
			same++
		}
	}
	if same != 3 {
		t.Errorf("%d of three equal maps are there", same)
	}
}

// What is known of nearest maps follows from the maps alone.
func TestNearestIsOfContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSettings(t, 10)
		c.Replace, c.Shared = KCentre, false
		s, r := mustNewRapid(t, c), seeded(c.Shape, rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(2, 8).Draw(t, "batches") {
			mustAdd(t, s, "a", r.many(rapid.IntRange(1, 8).Draw(t, "maps"))...)
		}
		p := s.parts["a"]
		kept := *p.nearest(s)
		p.near = nil
		anew := p.nearest(s)
		if !slices.Equal(kept.to[:p.count], anew.to[:p.count]) || !slices.Equal(kept.alike[:p.count], anew.alike[:p.count]) {
			t.Fatalf("%v with %v, and anew %v with %v", kept.to, kept.alike, anew.to, anew.alike)
		}
	})
}
