package routing

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// choices are all choices of a text, by layer and row.
func choices(g *Generator, t Text) [][][]uint16 {
	all := make([][][]uint16, g.Layers)
	g.Choices(t, func(l, r int, experts []uint16) {
		if len(all[l]) != r {
			panic("rows are not in order")
		}
		all[l] = append(all[l], slices.Clone(experts))
	})
	return all
}

func one(p Layer) Params { return Params{Layers: []Layer{p}} }

func generator(t testing.TB, s Shape, p Params, domains int, seed uint64) *Generator {
	g, err := New(s, p, domains, seed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Each row of each layer has top-k different experts that exist, and the same
// seed gives the same ones.
func TestChoices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shape{Layers: rapid.IntRange(1, 4).Draw(t, "layers"), Experts: rapid.IntRange(1, 20).Draw(t, "experts")}
		s.TopK = rapid.IntRange(1, s.Experts).Draw(t, "top-k")
		part, wide := rapid.Float64Range(0, 1), rapid.Float64Range(0, mostDeviation)
		p := one(Layer{wide.Draw(t, "common"), wide.Draw(t, "domain"), wide.Draw(t, "topic"), part.Draw(t, "neighbour"), part.Draw(t, "layer")})
		p.Even = rapid.Bool().Draw(t, "even")
		text := Text{ID: rapid.Uint64().Draw(t, "id"), Domain: rapid.IntRange(0, 9).Draw(t, "domain"), Rows: rapid.IntRange(0, 40).Draw(t, "rows")}
		seed := rapid.Uint64().Draw(t, "seed")
		g, err := New(s, p, 3, seed)
		if err != nil {
			t.Fatal(err)
		}
		all := choices(g, text)
		for _, layer := range all {
			if len(layer) != text.Rows {
				t.Fatalf("%d rows of %d", len(layer), text.Rows)
			}
			for _, experts := range layer {
				slices.Sort(experts)
				if n := len(slices.Compact(slices.Clone(experts))); n != s.TopK || int(experts[n-1]) >= s.Experts {
					t.Fatalf("a row has experts %v", experts)
				}
			}
		}
		again, _ := New(s, p, 3, seed)
		if text.Rows > 0 && s.TopK == 1 && !reflect.DeepEqual(all, choices(again, text)) {
			t.Fatal("the same seed gives other choices")
		}
	})
}

// Even routing gives all experts equally many rows, within one.
func TestEven(t *testing.T) {
	g := generator(t, Shape{Layers: 2, Experts: 8, TopK: 2}, Even(), 1, 1)
	var counts [8]int
	for _, experts := range choices(g, Text{ID: 5, Rows: 401})[1] {
		for _, e := range experts {
			counts[e]++
		}
	}
	if slices.Max(counts[:])-slices.Min(counts[:]) > 1 {
		t.Errorf("loads %v", counts)
	}
}

// The probabilities of the parameters are those of the choices.
func TestNeighbours(t *testing.T) {
	shape := Shape{Layers: 2, Experts: 16, TopK: 1}
	for _, p := range []float64{0, 0.3, 0.9} {
		all := choices(generator(t, shape, one(Layer{Neighbour: p}), 1, 3), Text{ID: 1, Rows: 20000})[0]
		same := 0
		for r := 1; r < len(all); r++ {
			if all[r][0] == all[r-1][0] {
				same++
			}
		}
		if got, want := float64(same)/20000, p+(1-p)/16; math.Abs(got-want) > 0.015 {
			t.Errorf("neighbour %v: %v of rows do as the one before, want %v", p, got, want)
		}
		layers := choices(generator(t, shape, one(Layer{Layer: p}), 1, 3), Text{ID: 1, Rows: 20000})
		same = 0
		for r := range layers[0] {
			if layers[0][r][0] == layers[1][r][0] { // popularity is flat, so points are experts
				same++
			}
		}
		if got, want := float64(same)/20000, p+(1-p)/16; math.Abs(got-want) > 0.015 {
			t.Errorf("layer %v: %v of rows keep their choice, want %v", p, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, bad := range map[string]struct {
		s Shape
		p Params
		n int
	}{
		"layers":    {Shape{0, 8, 2}, Even(), 1},
		"experts":   {Shape{1, 1025, 2}, Even(), 1},
		"top-k":     {Shape{1, 8, 9}, Even(), 1},
		"domains":   {Shape{1, 8, 2}, Even(), 0},
		"no params": {Shape{1, 8, 2}, Params{}, 1},
		"NaN":       {Shape{1, 8, 2}, one(Layer{Common: math.NaN()}), 1},
		"neighbour": {Shape{1, 8, 2}, one(Layer{Neighbour: 1.1}), 1},
	} {
		if _, err := New(bad.s, bad.p, bad.n, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Deeper models take parameters by depth.
func TestDepth(t *testing.T) {
	p := Params{Layers: []Layer{{Common: 1}, {Common: 2}, {Common: 4}}}
	for l, want := range []float64{1, 1.5, 2, 3, 4} {
		if got := p.at(l, 5).Common; got != want {
			t.Errorf("layer %d: %v, want %v", l, got, want)
		}
	}
	if got := p.at(0, 1).Common; got != 1 {
		t.Errorf("a single layer: %v", got)
	}
}

func BenchmarkChoices(b *testing.B) {
	g := generator(b, Shape{Layers: 32, Experts: 8, TopK: 2}, one(Layer{Common: 0.5, Domain: 0.5, Topic: 0.3, Neighbour: 0.1, Layer: 0.3}), 5, 1)
	rows := 0
	var loads [32][8]int
	for b.Loop() {
		rows += 1000
		g.Choices(Text{ID: uint64(rows), Rows: 1000}, func(l, _ int, experts []uint16) {
			for _, e := range experts {
				loads[l][e]++
			}
		})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows)/32, "ns/row/layer")
}
