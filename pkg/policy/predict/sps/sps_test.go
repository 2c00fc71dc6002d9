package sps

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// softCosine is equation 11 as it is printed: of the Gram matrix of both prompts' unit tokens.
func softCosine(a, b [][]float32) float64 {
	const sigma = 1e-12
	tokens := slices.Concat(a, b)
	gram := func(i, j int) float64 {
		dot := 0.0
		for at, v := range tokens[i] {
			dot += float64(v) * float64(tokens[j][at])
		}
		return dot / length(tokens[i]) / length(tokens[j])
	}
	sum := func(from, to, first, last int) (all float64) {
		for i := from; i < to; i++ {
			for j := first; j < last; j++ {
				all += gram(i, j)
			}
		}
		return all
	}
	n, m := len(a), len(tokens)
	return sum(0, n, n, m) / (math.Sqrt(sum(0, n, 0, n))*math.Sqrt(sum(n, m, n, m)) + sigma)
}

func dot(a, b []float32) (sum float64) {
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

// One vector a prompt gives the soft cosine of all tokens; it is symmetric and at most 1.
func TestSoftCosine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 6).Draw(t, "width")
		draw := func(name string) (tokens [][]float32, flat []float32) {
			for range rapid.IntRange(1, 6).Draw(t, name) {
				token := make([]float32, width)
				for i := range token {
					token[i] = rapid.Float32Range(0.1, 3).Draw(t, "value")
				}
				tokens, flat = append(tokens, token), append(flat, token...)
			}
			return tokens, flat
		}
		a, flatA := draw("a")
		b, flatB := draw("b")
		va, errA := Vector(flatA, width)
		vb, errB := Vector(flatB, width)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		want, got := softCosine(a, b), dot(va, vb)
		if math.Abs(got-want) > 1e-5 || got > 1+1e-5 || math.Abs(want-softCosine(b, a)) > 1e-9 {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestVectorRefused(t *testing.T) {
	nan := float32(math.NaN())
	for _, tc := range []struct {
		name  string
		of    []float32
		width int
		want  string
	}{
		{"no tokens", nil, 2, "it must have one token or more"},
		{"half a token", []float32{1}, 2, "it must have one token or more"},
		{"NaN", []float32{1, 0, nan, 1}, 2, "token 1 has a value that is no finite number"},
		{"opposite", []float32{1, 0, -1, 0}, 2, "cancel each other"},
		{"nothing", []float32{0, 0}, 2, "cancel each other"},
	} {
		if _, err := Vector(tc.of, tc.width); !errors.Is(err, ErrPrompt) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestDivergence(t *testing.T) {
	for _, tc := range []struct {
		a, b []float32
		want float64
	}{
		{[]float32{1, 0}, []float32{1, 0}, 0}, {[]float32{1, 0}, []float32{0, 1}, 1},
		{[]float32{1, 0, 0.5, 0.5}, []float32{0, 1, 0.5, 0.5}, 0.5}, // half of the layers
		{[]float32{1, 0}, []float32{0.5, 0.5}, 0.311278},
	} {
		if got, other := Divergence(tc.a, tc.b, 2), Divergence(tc.b, tc.a, 2); math.Abs(got-tc.want) > 1e-6 || got != other {
			t.Errorf("%v and %v: %v and %v, want %v", tc.a, tc.b, got, other, tc.want)
		}
	}
}

// past are prompts of some topics; those of one topic are alike in both ways.
func past(n, topics int, s Settings, seed uint64) (all []Prompt) {
	for i := range n {
		state := splitmix.Mix(seed ^ uint64(i)<<20)
		base := splitmix.Mix(uint64(i%topics) + 7)
		raw := make([]float32, s.Width)
		for at := range raw {
			raw[at] = float32(splitmix.Unit(splitmix.Next(&base))-0.5) + 0.2*float32(splitmix.Unit(splitmix.Next(&state))-0.5)
		}
		v, err := Vector(raw, s.Width)
		if err != nil {
			panic(err)
		}
		p := Prompt{Vector: v, Activation: make([]float32, s.Layers*s.Experts)}
		for l := range s.Layers {
			row, sum := p.Activation[l*s.Experts:(l+1)*s.Experts], float32(0)
			for e := range row {
				row[e] = float32(splitmix.Unit(splitmix.Next(&base))) + 0.1*float32(splitmix.Unit(splitmix.Next(&state)))
				sum += row[e]
			}
			for e := range row {
				row[e] /= sum
			}
		}
		all = append(all, p)
	}
	return all
}

func small(alpha, beta int) Settings {
	s := Paper(2, 4, 5)
	s.Alpha, s.Beta, s.Branch = alpha, beta, 3
	return s
}

// whole says what is wrong with a tree.
func (s *Store) whole(n *node) error {
	if len(n.children) > 0 && len(n.members) > 0 || len(n.children) > s.Branch {
		return fmt.Errorf("a node with %d children has %d prompts", len(n.children), len(n.members))
	}
	if len(n.members) > max(s.Beta, 2*n.alike) {
		return fmt.Errorf("a leaf has %d prompts", len(n.members))
	}
	size := len(n.members)
	for _, slot := range n.members {
		if s.leaves[slot] != n {
			return fmt.Errorf("prompt %d is elsewhere", slot)
		}
	}
	for _, c := range n.children {
		size += c.size
		if err := s.whole(c); err != nil || c.parent != n || c.size == 0 {
			return errors.Join(err, fmt.Errorf("a child has %d prompts", c.size))
		}
	}
	if size != n.size {
		return fmt.Errorf("a node says that it has %d prompts, and has %d", n.size, size)
	}
	return nil
}

// Whatever comes and goes: each prompt is in one leaf, no leaf has too many, a search finds α
// prompts that are there or all of them, in order and once, and predicts distributions.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alpha := rapid.IntRange(1, 5).Draw(t, "alpha")
		s := small(alpha, alpha+rapid.IntRange(1, 6).Draw(t, "more"))
		s.Clustering = rapid.SampledFrom([]Clustering{Semantic, PAM, Activation}).Draw(t, "clustering")
		s.Leaves = rapid.IntRange(0, 4).Draw(t, "leaves")
		s.Centred, s.Typical = rapid.Bool().Draw(t, "centred"), float64(rapid.IntRange(0, 2).Draw(t, "typical"))/2
		if rapid.Bool().Draw(t, "bounded") {
			s.Capacity = rapid.IntRange(alpha, 40).Draw(t, "capacity")
		}
		all := past(rapid.IntRange(0, 90).Draw(t, "prompts"), rapid.IntRange(1, 6).Draw(t, "topics"), s, 1)
		first := rapid.IntRange(0, len(all)).Draw(t, "first")
		y, err := New(s, all[:first])
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all[first:] {
			if err := y.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		want := len(all)
		if s.Capacity > 0 {
			want = min(want, s.Capacity)
		}
		if err := y.whole(y.root); err != nil || y.Len() != want {
			t.Fatalf("%d prompts of %d: %v", y.Len(), want, err)
		}
		q := past(1, 1, s, 99)[0]
		found := y.Search(q.Vector)
		seen := map[int32]bool{}
		for i, m := range found {
			if seen[m.Slot] || y.leaves[m.Slot] == nil || i > 0 && byScore(found[i-1], m) >= 0 || math.Abs(m.Score-dot(y.beside(q.Vector), y.vectors.row(m.Slot))) > 1e-5 {
				t.Fatalf("found %v", found)
			}
			seen[m.Slot] = true
		}
		if len(found) != min(alpha, want) {
			t.Fatalf("%d of %d were found", len(found), want)
		}
		for _, p := range [][]float32{y.Predict(q.Vector), y.Average(), y.Even()} {
			if err := y.check(Prompt{q.Vector, p}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A tree of one leaf searches all, and a whole search is what sorting gives.
func TestScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := small(3, 200)
		all := past(rapid.IntRange(1, 60).Draw(t, "prompts"), 4, s, 3)
		y, err := New(s, all)
		if err != nil {
			t.Fatal(err)
		}
		q := past(1, 2, s, rapid.Uint64().Draw(t, "seed"))[0].Vector
		var want []Match
		for i, p := range all {
			want = append(want, Match{int32(i), dot(q, p.Vector)})
		}
		slices.SortStableFunc(want, byScore)
		for _, got := range [][]Match{y.Scan(q), y.Search(q)} {
			for i, m := range got {
				if math.Abs(m.Score-want[i].Score) > 1e-5 {
					t.Fatalf("%v, want %v", got, want)
				}
			}
		}
	})
}

// With each leaf more that a search goes through it finds prompts as similar or more so; with all of
// them it finds what a scan does.
func TestLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := small(3, rapid.IntRange(4, 9).Draw(t, "beta"))
		y, err := New(s, past(rapid.IntRange(1, 90).Draw(t, "prompts"), rapid.IntRange(1, 6).Draw(t, "topics"), s, 5))
		if err != nil {
			t.Fatal(err)
		}
		q := past(1, 2, s, rapid.Uint64().Draw(t, "seed"))[0].Vector
		var before []Match
		for y.Leaves = 2; y.Leaves <= 1+y.Len(); y.Leaves++ {
			found := y.Search(q)
			for i, m := range before {
				if found[i].Score < m.Score {
					t.Fatalf("%d leaves find %v, fewer %v", y.Leaves, found, before)
				}
			}
			before = found
		}
		if all := y.Scan(q); !reflect.DeepEqual(y.Search(q), all) {
			t.Fatalf("all leaves find %v, a scan %v", y.Search(q), all)
		}
	})
}

// A group's medoid is the point that is nearest to all others of it.
func TestMedoid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := small(2, 5)
		all := past(rapid.IntRange(3, 40).Draw(t, "points"), 5, s, rapid.Uint64().Draw(t, "seed"))
		y, err := New(small(2, 100), all)
		if err != nil {
			t.Fatal(err)
		}
		points := rapid.SampledFrom([]*table{&y.vectors, &y.activations}).Draw(t, "of")
		c := newClusters(points, y.root.members)
		draws := rapid.Uint64().Draw(t, "draws")
		c.begin(3, &draws)
		c.update()
		for k, centre := range c.centres {
			sum := func(i int) (all float64) {
				for j, of := range c.nearest {
					if of == k {
						all += c.distance(i, j)
					}
				}
				return all
			}
			for i, of := range c.nearest {
				if of == k && sum(i) < sum(centre)-1e-3 {
					t.Fatalf("%d is nearer to its group than the medoid %d: %v, %v", i, centre, sum(i), sum(centre))
				}
			}
		}
	})
}

// No exchange of a medoid makes what Partitioning Around Medoids gives better, and the best of
// all choices of two is not much better.
func TestPAM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := small(2, 100)
		y, err := New(s, past(rapid.IntRange(4, 14).Draw(t, "points"), 3, s, rapid.Uint64().Draw(t, "seed")))
		if err != nil {
			t.Fatal(err)
		}
		c := newClusters(&y.vectors, y.root.members)
		sum := func(of ...int) (all float64) {
			for j := range c.members {
				near := math.Inf(1)
				for _, m := range of {
					near = min(near, c.distance(m, j))
				}
				all += near
			}
			return all
		}
		c.pam(2)
		if len(c.centres) != 2 {
			t.Fatalf("%d medoids", len(c.centres))
		}
		got, least := sum(c.centres...), math.Inf(1)
		for i := range c.members {
			for j := range i {
				least = min(least, sum(i, j))
			}
			if sum(c.centres[0], i) < got-1e-4 || sum(i, c.centres[1]) < got-1e-4 {
				t.Fatalf("an exchange for %d makes %v less", i, got)
			}
		}
		if got > 5*least+1e-3 { // a local optimum of k-medians under exchanges (Arya et al., 2001)
			t.Fatalf("%v, and the best is %v", got, least)
		}
	})
}

// Equal prompts stay in one leaf, and a search of them ends.
func TestAlike(t *testing.T) {
	for _, by := range []Clustering{Semantic, PAM, Activation} {
		s := small(3, 5)
		s.Clustering = by
		one := past(1, 1, s, 5)[0]
		y, err := New(s, slices.Repeat([]Prompt{one}, 30))
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if err := y.Add(one); err != nil {
				t.Fatal(err)
			}
		}
		if len(y.root.children) != 0 || len(y.Search(one.Vector)) != 3 {
			t.Errorf("clustering %d: %d children", by, len(y.root.children))
		}
	}
}

// The same seed makes the same tree, and prompts of a topic foretell those of it better than
// all prompts do, or none.
func TestForetells(t *testing.T) {
	s := Paper(2, 8, 16)
	all := past(1200, 6, s, 11)
	a, errA := New(s, all[:1100])
	b, errB := New(s, all[:1100])
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	a.Fit(all[1100:1150])
	b.Fit(all[1100:1150])
	var ours, scanned, average, even float64
	for _, p := range all[1150:] {
		if !reflect.DeepEqual(a.Search(p.Vector), b.Search(p.Vector)) {
			t.Fatal("the same seed finds others")
		}
		ours += Divergence(a.Predict(p.Vector), p.Activation, s.Experts)
		scanned += Divergence(a.Mean(a.Scan(p.Vector), a.Temperature), p.Activation, s.Experts)
		average += Divergence(a.Average(), p.Activation, s.Experts)
		even += Divergence(a.Even(), p.Activation, s.Experts)
	}
	if !(ours < average/2 && average < even && ours < 1.05*scanned) {
		t.Errorf("divergences: similar prompts %v, all compared %v, all prompts %v, none %v", ours, scanned, average, even)
	}
}

func TestRefused(t *testing.T) {
	for want, spoil := range map[string]func(*Settings){
		"activations have 0 layers": func(s *Settings) { s.Layers = 0 },
		"vectors have 0 values":     func(s *Settings) { s.Width = 0 },
		"made of 0 prompts":         func(s *Settings) { s.Alpha = 0 },
		"set β above α":             func(s *Settings) { s.Beta = s.Alpha },
		"up to 1 children":          func(s *Settings) { s.Branch = 1 },
		"room for 3 prompts":        func(s *Settings) { s.Capacity = 3 },
		"the temperature is 0":      func(s *Settings) { s.Temperature = 0 },
		"no clustering 9":           func(s *Settings) { s.Clustering = 9 },
		"a part of 2 in":            func(s *Settings) { s.Typical = 2 },
		"through -1 leaves":         func(s *Settings) { s.Leaves = -1 },
	} {
		s := Paper(2, 4, 5)
		spoil(&s)
		if _, err := New(s, nil); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := Paper(2, 4, 5)
	y, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := y.Predict(past(1, 1, s, 1)[0].Vector); !slices.Equal(got, y.Even()) {
		t.Errorf("nothing foretells %v", got)
	}
	for want, spoil := range map[string]func(*Prompt){
		"a vector of 4 values":           func(p *Prompt) { p.Vector = p.Vector[:4] },
		"length 2":                       func(p *Prompt) { p.Vector = []float32{2, 0, 0, 0, 0} },
		"length NaN":                     func(p *Prompt) { p.Vector[1] = float32(math.NaN()) },
		"the share of expert 1 in layer": func(p *Prompt) { p.Activation[1] = -1 },
		"the shares of layer 1 sum to":   func(p *Prompt) { p.Activation[4]++ },
	} {
		p := past(1, 1, s, 1)[0]
		spoil(&p)
		if err := y.Add(p); !errors.Is(err, ErrPrompt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := New(s, []Prompt{p}); !errors.Is(err, ErrPrompt) {
			t.Errorf("%v", err)
		}
	}
}

// Where prompts have most of their tokens in common, centring tells them apart; where activations are
// chance, the mean of all foretells them better, and Fit finds that.
func TestOurs(t *testing.T) {
	s := Paper(2, 8, 16)
	all := past(700, 6, s, 11)
	common := past(1, 1, s, 77)[0].Vector
	for i := range all {
		raw := make([]float32, s.Width)
		for at := range raw {
			raw[at] = 20*common[at] + all[i].Vector[at]
		}
		v, err := Vector(raw, s.Width)
		if err != nil {
			t.Fatal(err)
		}
		all[i].Vector = v
	}
	foretells := func(s Settings) (sum float64) {
		y, err := New(s, all[:600])
		if err != nil {
			t.Fatal(err)
		}
		y.Fit(all[600:650])
		for _, p := range all[650:] {
			sum += Divergence(y.Predict(p.Vector), p.Activation, s.Experts)
		}
		return sum
	}
	plain := foretells(s)
	s.Centred = true
	if centred := foretells(s); centred > plain*1.001 {
		t.Errorf("centred %v, else %v", centred, plain)
	}
	for i := range all { // vectors say nothing of activations
		all[i].Activation = all[(i*331+7)%len(all)].Activation
	}
	plain = foretells(s)
	s.Blended = true
	if blended := foretells(s); blended >= plain {
		t.Errorf("blended %v, else %v", blended, plain)
	}
}
