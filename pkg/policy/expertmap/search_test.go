package expertmap

import (
	"math"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// plain is what a search must find, computed from what the store holds, slot by slot and
// layer by layer.
func plain(s *Store, tenant string, told []int, probs map[int][]float32) (Match, bool) {
	p := s.parts[s.scope(tenant)]
	if p == nil || p.count == 0 {
		return Match{}, false
	}
	norm := 0.0
	mine := map[int][]float32{}
	for _, l := range told {
		mine[l], _ = s.maps.held(make([]float32, s.Experts), probs[l], nil)
		norm += float64(cpu.Chain(mine[l], mine[l]))
	}
	best, score := -1, math.Inf(-1)
	for slot := range p.count {
		dot, other := 0.0, 0.0
		for _, l := range told {
			row := s.Row(p.place*s.Capacity+slot, l)
			dot += float64(cpu.Chain(mine[l], row))
			other += float64(cpu.Chain(row, row))
		}
		if is := cosine(dot, norm, other); is > score || is == score && p.added[slot] > p.added[best] {
			best, score = slot, is
		}
	}
	return Match{p.place*s.Capacity + best, float32(min(1, score))}, true
}

// drawSettings are of any store that may be.
func drawSettings(t *rapid.T, most int) Settings {
	s := Settings{
		Shape: Shape{Layers: rapid.IntRange(2, 6).Draw(t, "layers"), Experts: rapid.IntRange(1, 40).Draw(t, "experts"), TopK: 1, Embedding: rapid.IntRange(0, 40).Draw(t, "embedding")},
		Model: "abc", Capacity: rapid.IntRange(1, most).Draw(t, "capacity"),
		Replace:    rapid.SampledFrom(Replacements()).Draw(t, "replace"),
		Shared:     rapid.Bool().Draw(t, "shared"),
		Maps:       rapid.SampledFrom([]Format{F32, BF16, FP8}).Draw(t, "maps"),
		Embeddings: rapid.SampledFrom([]Format{F32, BF16, FP8}).Draw(t, "embeddings"),
	}
	s.Distance = rapid.IntRange(1, s.Layers-1).Draw(t, "distance")
	return s
}

// A search that goes on from layer to layer finds, bit by bit, what a search from
// scratch finds, whatever is added, replaced and forgotten meanwhile, and whichever gates
// are not heard of.
func TestIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := drawSettings(t, 40)
		s, err := New(settings)
		if err != nil {
			t.Fatal(err)
		}
		r := seeded(settings.Shape, rapid.Uint64().Draw(t, "seed"))
		q := s.Begin("a")
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			var told []int
			probs := map[int][]float32{}
			for l := 1; l <= settings.Layers; l++ {
				change(t, s, r)
				if rapid.IntRange(0, 5).Draw(t, "lost") == 0 {
					continue
				}
				told = append(told, l)
				probs[l] = r.row()
				got, ok := q.Layer(l, probs[l])
				if want, there := plain(s, "a", told, probs); got != want || ok != there {
					t.Fatalf("layers %v: %v %v, from scratch %v %v", told, got, ok, want, there)
				}
			}
			q.Reset()
		}
	})
}

// A search by embedding finds what the products with all maps say, or the newest map with
// the same embedding.
func TestSemantic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSettings(t, 40)
		c.Embedding = max(c.Embedding, 2)
		s, r := mustNewRapid(t, c), seeded(c.Shape, rapid.Uint64().Draw(t, "seed"))
		tokens := r.many(6)
		for range rapid.IntRange(1, 60).Draw(t, "maps") {
			m := r.one()
			m.Embedding = rapid.SampledFrom(tokens).Draw(t, "token").Embedding
			mustAdd(t, s, "a", m)
		}
		p, e := s.parts[s.scope("a")], tokens[0].Embedding
		if rapid.Bool().Draw(t, "new") {
			e = r.one().Embedding
		}
		mine, _ := s.embeddings.held(make([]float32, c.Embedding), e, nil)
		best, score := -1, math.Inf(-1)
		for slot := range p.count {
			row := p.mapIn(slot).Embedding
			is := cosine(float64(cpu.Chain(mine, row)), float64(cpu.Chain(mine, mine)), float64(cpu.Chain(row, row)))
			if is > 0 && slices.Equal(mine, row) {
				is = 2 // the same embedding comes before others of its direction, whose product may round to more than 1
			}
			if is > score || is == score && p.added[slot] > p.added[best] {
				best, score = slot, is
			}
		}
		want := Match{best, float32(max(-1, min(1, score)))}
		if got, ok := s.Begin("a").Embedding(e); !ok || got != want {
			t.Fatalf("found %v, %v; the products say %v", got, ok, want)
		}
	})
}

// change does something to a store, or nothing.
func change(t *rapid.T, s *Store, r random) {
	tenant := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant")
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1, 2:
		mustAdd(t, s, tenant, r.many(rapid.IntRange(1, 5).Draw(t, "maps"))...)
	case 3:
		mustAdd(t, s, tenant, r.many(rebuildFrom+1)...)
	case 4:
		s.Forget(tenant)
	}
}

// A stored map is found by its own embedding and by its own layers, with score 1.
func TestFindsItself(t *testing.T) {
	for _, f := range []Format{F32, BF16, FP8} {
		t.Run(string(f), func(t *testing.T) {
			c := settings(small, 50)
			c.Maps, c.Embeddings = f, f
			s, r := mustNew(t, c), seeded(small, 1)
			list := r.many(50)
			mustAdd(t, s, "a", list...)
			q := s.Begin("a")
			for i, m := range list {
				if got, ok := q.Embedding(m.Embedding); !ok || got != (Match{i, 1}) {
					t.Errorf("the embedding of %d finds %v, %v", i, got, ok)
				}
				for l := 1; l <= small.Layers; l++ {
					if got, ok := q.Layer(l, r.layer(m, l)); !ok || got != (Match{i, 1}) {
						t.Errorf("layer %d of %d finds %v, %v", l, i, got, ok)
					}
				}
				q.Reset()
			}
		})
	}
}

// Of equal maps the newest is found.
func TestNewestOfEqual(t *testing.T) {
	s, r := mustNew(t, settings(small, 3)), seeded(small, 1)
	m := r.one()
	mustAdd(t, s, "a", m, m, m)
	mustAdd(t, s, "a", m) // replaces the first
	q := s.Begin("a")
	if got, _ := q.Embedding(m.Embedding); got.Index != 0 {
		t.Errorf("found %v", got)
	}
	if got, _ := q.Layer(1, r.layer(m, 1)); got.Index != 0 {
		t.Errorf("found %v", got)
	}
}

func TestSearchRefuses(t *testing.T) {
	s, r := mustNew(t, settings(small, 3)), seeded(small, 1)
	m, nan := r.one(), float32(math.NaN())
	q := s.Begin("a")
	if _, ok := q.Embedding(m.Embedding); ok {
		t.Error("an empty store has a match")
	}
	mustAdd(t, s, "a", m)
	if _, ok := s.Begin("b").Embedding(m.Embedding); ok {
		t.Error("another tenant finds the map")
	}
	for name, found := range map[string]func() (Match, bool){
		"short embedding": func() (Match, bool) { return q.Embedding(m.Embedding[1:]) },
		"no number":       func() (Match, bool) { return q.Embedding(append([]float32{nan}, m.Embedding[1:]...)) },
		"layer 0":         func() (Match, bool) { return q.Layer(0, r.row()) },
		"layer behind":    func() (Match, bool) { return q.Layer(small.Layers+1, r.row()) },
		"short row":       func() (Match, bool) { return q.Layer(1, r.row()[1:]) },
		"sum":             func() (Match, bool) { return q.Layer(1, make([]float32, small.Experts)) },
		"row of NaN":      func() (Match, bool) { return q.Layer(1, append([]float32{nan}, r.row()[1:]...)) },
	} {
		if got, ok := found(); ok {
			t.Errorf("%s: found %v", name, got)
		}
	}
	if got, ok := q.Layer(2, r.layer(m, 2)); !ok || got.Score != 1 {
		t.Errorf("what was refused counts: %v, %v", got, ok)
	}
	if _, ok := q.Layer(2, r.layer(m, 2)); ok {
		t.Error("a gate is heard of twice")
	}
}

// Several goroutines search one store.
func TestSearchTogether(t *testing.T) {
	s, r := mustNew(t, settings(small, 60)), seeded(small, 1)
	list := r.many(60)
	mustAdd(t, s, "a", list...)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			q := s.Begin("a")
			for i := worker; i < len(list); i += 2 {
				q.Reset()
				if got, _ := q.Embedding(list[i].Embedding); got.Index != i {
					t.Errorf("%d finds %v", i, got)
				}
				if got, _ := q.Layer(1, r.layer(list[i], 1)); got.Index != i {
					t.Errorf("%d finds %v", i, got)
				}
			}
		})
	}
	all.Wait()
}
