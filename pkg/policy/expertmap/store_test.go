package expertmap

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		spoil      func(s *Settings)
	}{
		{"ok", "", func(*Settings) {}},
		{"no room", "the capacity is 0 maps; set it to 1", func(s *Settings) { s.Capacity = 0 }},
		{"no distance", "the distance is 0 layers; with 5 layers that have experts, set it to 1 to 4", func(s *Settings) { s.Distance = 0 }},
		{"far", "the distance is 5 layers", func(s *Settings) { s.Distance = 5 }},
		{"one layer", "1 layers with experts", func(s *Settings) { s.Layers = 1 }},
		{"no experts", "choose 2 of 0 experts", func(s *Settings) { s.Experts = 0 }},
		{"more chosen", "choose 8 of 7 experts", func(s *Settings) { s.TopK = 8 }},
		{"huge", "at most 1048576 are held", func(s *Settings) { s.Layers, s.Experts = 1<<12, 1<<12 }},
		{"embedding", "embeddings have -1 values", func(s *Settings) { s.Embedding = -1 }},
		{"rule", `no rule of replacement "lru"; choose one of redundant, fifo`, func(s *Settings) { s.Replace = "lru" }},
		{"format", `cannot be held as "int4"; choose one of f32, bf16, fp8`, func(s *Settings) { s.Maps = "int4" }},
		{"tenants", "-1 tenants", func(s *Settings) { s.Tenants = -1 }},
		{"redundancy", "a similarity of NaN", func(s *Settings) { s.Redundancy = float32(math.NaN()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := settings(small, 10)
			tt.spoil(&s)
			_, err := New(s)
			if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tt := range []struct {
		name  string
		kind  error
		spoil func(m *Map)
	}{
		{"ok", nil, func(*Map) {}},
		{"short", ErrShape, func(m *Map) { m.Probabilities = m.Probabilities[1:] }},
		{"embedding", ErrShape, func(m *Map) { m.Embedding = nil }},
		{"NaN", ErrValues, func(m *Map) { m.Probabilities[3] = nan }},
		{"infinite", ErrValues, func(m *Map) { m.Probabilities[3] = inf }},
		{"negative", ErrValues, func(m *Map) { m.Probabilities[0], m.Probabilities[1] = -1, m.Probabilities[0]+m.Probabilities[1]+1 }},
		{"sum", ErrValues, func(m *Map) { m.Probabilities[8] += 0.1 }},
		{"NaN embedding", ErrValues, func(m *Map) { m.Embedding[0] = nan }},
		{"huge embedding", ErrValues, func(m *Map) { m.Embedding[0] = -1e20 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, m := mustNew(t, settings(small, 10)), seeded(small, 1).one()
			tt.spoil(&m)
			if err := s.Add("a", m.Embedding, m.Probabilities); !errors.Is(err, tt.kind) {
				t.Errorf("got %v", err)
			}
			c := s.Counts()
			want := Counts{}
			switch {
			case tt.kind == nil:
				want.Added = 1
			case errors.Is(tt.kind, ErrShape):
				want.RefusedShape = 1
			default:
				want.RefusedValues = 1
			}
			if c != want || s.Len("a") != int(want.Added) {
				t.Errorf("counted %+v, kept %d", c, s.Len("a"))
			}
		})
	}
}

func TestTooManyTenants(t *testing.T) {
	for _, shared := range []bool{false, true} {
		c := settings(small, 10)
		c.Tenants, c.Shared = 2, shared
		s, r := mustNew(t, c), seeded(small, 1)
		mustAdd(t, s, "a", r.one())
		mustAdd(t, s, "b", r.one())
		if err := s.AddBatch("c", r.many(2)); !errors.Is(err, ErrTenants) || s.Counts().RefusedTenants != 2 {
			t.Errorf("shared %v: got %v, counted %+v", shared, err, s.Counts())
		}
		s.Forget("a")
		mustAdd(t, s, "c", r.one())
	}
}

// What one tenant adds, has replaced and forgets changes no bit of what another one
// finds.
func TestTenantsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSettings(t, 8)
		c.Shared = false
		seed := rapid.Uint64().Draw(t, "seed")
		with, alone := mustNewRapid(t, c), mustNewRapid(t, c)
		mine, others := seeded(c.Shape, seed), seeded(c.Shape, seed+1)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "who") {
			case 0:
				mustAdd(t, with, "a", others.many(rapid.IntRange(1, 20).Draw(t, "maps"))...)
			case 1:
				with.Forget("a")
			default:
				list := mine.many(rapid.IntRange(1, 5).Draw(t, "maps"))
				mustAdd(t, with, "b", list...)
				mustAdd(t, alone, "b", list...)
			}
			compareSearches(t, with, alone, mine)
		}
	})
}

func mustNewRapid(t *rapid.T, c Settings) *Store {
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// compareSearches wants two stores to find the same maps for tenant b.
func compareSearches(t *rapid.T, one, other *Store, r random) {
	m := r.one()
	q, p := one.Begin("b"), other.Begin("b")
	same := func(what string, layer int, a, b Match, ok, there bool) {
		if ok != there || a.Score != b.Score || a.Index%one.Capacity != b.Index%other.Capacity || ok && !slices.Equal(one.Row(a.Index, layer), other.Row(b.Index, layer)) {
			t.Fatalf("%s: %v %v, and %v %v", what, a, ok, b, there)
		}
	}
	a, ok := q.Embedding(m.Embedding)
	b, there := p.Embedding(m.Embedding)
	same("embedding", 1, a, b, ok, there)
	for l := 1; l <= r.Layers; l++ {
		a, ok := q.Layer(l, r.layer(m, l))
		b, there := p.Layer(l, r.layer(m, l))
		same("layer", l, a, b, ok, there)
	}
}

// Tenants share maps where that is wanted, and each one's go when it is forgotten.
func TestShared(t *testing.T) {
	c := settings(small, 10)
	c.Shared = true
	s, r := mustNew(t, c), seeded(small, 1)
	a, b := r.many(4), r.many(3)
	for i := range 3 {
		mustAdd(t, s, "a", a[i])
		mustAdd(t, s, "b", b[i])
	}
	mustAdd(t, s, "a", a[3])
	if got, ok := s.Begin("b").Embedding(a[3].Embedding); !ok || got.Score != 1 {
		t.Errorf("b finds %v, %v of a's", got, ok)
	}
	if names, count := s.Owners(); !slices.Equal(names, []string{"a", "b"}) || !slices.Equal(count, []int{4, 3}) {
		t.Errorf("owners %v with %v", names, count)
	}
	if n := s.Forget("a"); n != 4 || s.Len("b") != 3 || s.Counts().Forgot != 4 {
		t.Errorf("forgot %d, %d are left", n, s.Len("b"))
	}
	q := s.Begin("b")
	for i := range a {
		if got, ok := q.Embedding(a[i].Embedding); !ok || got.Score > 0.999 {
			t.Errorf("a's map %d is still found: %v, %v", i, got, ok)
		}
	}
	for i := range b {
		if got, ok := q.Embedding(b[i].Embedding); !ok || got.Score != 1 {
			t.Errorf("b's map %d is lost: %v, %v", i, got, ok)
		}
	}
	if n := s.Forget("a"); n != 0 {
		t.Errorf("forgot %d again", n)
	}
}

func TestRow(t *testing.T) {
	s, r := mustNew(t, settings(small, 10)), seeded(small, 1)
	m := r.one()
	mustAdd(t, s, "a", m)
	if got := s.Row(0, 2); !slices.Equal(got, r.layer(m, 2)) {
		t.Errorf("got %v", got)
	}
	for _, at := range [][2]int{{-1, 1}, {1, 1}, {10, 1}, {0, 0}, {0, 6}} {
		if s.Row(at[0], at[1]) != nil {
			t.Errorf("map %d has a layer %d", at[0], at[1])
		}
	}
}

// No store exceeds its capacity; the maps of a batch are all there afterwards, as far as
// there is room.
func TestCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawSettings(t, 20)
		c.Maps, c.Embeddings = F32, F32
		s, r := mustNewRapid(t, c), seeded(c.Shape, rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			list := r.many(rapid.IntRange(1, 30).Draw(t, "maps"))
			before := s.Counts()
			mustAdd(t, s, "a", list...)
			after := s.Counts()
			if s.Len("a") > c.Capacity || after.Added+after.Skipped-before.Added-before.Skipped != uint64(len(list)) {
				t.Fatalf("%d maps of %d; %+v after %+v", s.Len("a"), c.Capacity, after, before)
			}
			if c.Replace == SkipRedundant || c.Experts == 1 || len(list) > c.Capacity {
				continue
			}
			have := map[float32]bool{}
			for _, m := range s.All() {
				have[m.Probabilities[0]] = true
			}
			for i, m := range list {
				if !have[m.Probabilities[0]] {
					t.Fatalf("%s: map %d of a batch is not there", c.Replace, i)
				}
			}
		}
		if got := s.MemoryBytes(); !c.Shared && s.Len("a") == c.Capacity && got > c.Bytes(c.Capacity) {
			t.Fatalf("%d bytes; %d were foretold", got, c.Bytes(c.Capacity))
		}
	})
}
