package predict

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// gatesOf are random gates; layer 1 of four or more has no experts.
func gatesOf(t *rapid.T) Gates {
	g := Gates{Hidden: rapid.IntRange(1, 40).Draw(t, "hidden"), Experts: rapid.IntRange(1, 40).Draw(t, "experts")}
	g.TopK = rapid.IntRange(1, g.Experts).Draw(t, "k")
	g.Layers = make([][]float32, rapid.IntRange(2, 6).Draw(t, "layers"))
	for l := range g.Layers {
		if l != 1 || len(g.Layers) < 4 {
			g.Layers[l] = floats(t, "gate", g.Experts*g.Hidden)
		}
	}
	return g
}

func floats(t *rapid.T, name string, n int) []float32 {
	return rapid.SliceOfN(rapid.Float32Range(-4, 4), n, n).Draw(t, name)
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// all are predictors of every method.
func all(t *rapid.T, g Gates, distance int) []Predictor {
	reused, err := Reused(g, distance)
	check(t, err)
	networks := map[int]Network{}
	for _, l := range g.Sources(distance) {
		networks[l+distance] = Network{2, floats(t, "w1", 2*g.Hidden), floats(t, "b1", 2), floats(t, "w2", 2*g.Experts), floats(t, "b2", g.Experts)}
	}
	tuned := map[int]Tuned{}
	for target := range networks {
		adapter := &Network{1, floats(t, "w1", g.Hidden+g.Experts), floats(t, "b1", 1), floats(t, "w2", g.Experts), floats(t, "b2", g.Experts)}
		tuned[target] = Tuned{floats(t, "tuned", g.Experts*g.Hidden), adapter}
	}
	aware, err := LayerAware(g, distance, tuned)
	check(t, err)
	learned, err := NewLearned(g, distance, networks)
	check(t, err)
	history, err := NewHistory(g, distance, 3)
	check(t, err)
	return []Predictor{reused, aware, learned, history}
}

func check(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoadsAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gatesOf(t)
		distance := rapid.IntRange(1, len(g.Layers)-1).Draw(t, "distance")
		rows := rapid.IntRange(0, 20).Draw(t, "rows")
		layer := rapid.IntRange(-1, len(g.Layers)).Draw(t, "layer")
		x, load := floats(t, "x", rows*g.Hidden), make([]float64, g.Experts)
		for _, p := range all(t, g, distance) {
			_, want := p.Target(layer)
			if got := p.Predict(layer, x, rows, load); got != want {
				t.Fatalf("%s: predicted %v, has a target %v", p.Method(), got, want)
			}
			if want && math.Abs(sum(load)-float64(rows*g.TopK)) > 1e-6 {
				t.Fatalf("%s: loads sum to %v, not %d", p.Method(), sum(load), rows*g.TopK)
			}
			if want && slices.Min(load) < 0 {
				t.Fatalf("%s: loads are %v", p.Method(), load)
			}
		}
	})
}

func TestReusedTakesTheGateAhead(t *testing.T) {
	g := Gates{Hidden: 2, Experts: 3, TopK: 1, Layers: [][]float32{{9, 9, 9, 9, 9, 9}, {1, 0, 0, 1, -1, -1}, {0, 1, 1, 0, -1, -1}}}
	x := []float32{3, 1, 1, 3, 1, 4, -1, -1}
	for distance, want := range map[int][]float64{1: {1, 2, 1}, 2: {2, 1, 1}} {
		p, err := Reused(g, distance)
		check(t, err)
		load := make([]float64, 3)
		if !p.Predict(0, x, 4, load) || !slices.Equal(load, want) {
			t.Errorf("distance %d: %v, want %v", distance, load, want)
		}
	}
}

// An adapter sees which experts the layer that it predicts from chooses.
func TestAdapterSeesRoutes(t *testing.T) {
	g := Gates{Hidden: 2, Experts: 2, TopK: 1, Layers: [][]float32{{1, 0, 0, 1}, {1, 0, 0, 1}}}
	swap := &Network{Width: 2, W1: []float32{0, 0, 1, 0, 0, 0, 0, 1}, B1: []float32{0, 0}, W2: []float32{0, 9, 9, 0}, B2: []float32{0, 0}}
	p, err := LayerAware(g, 1, map[int]Tuned{1: {Gate: g.Layers[1], Adapter: swap}})
	check(t, err)
	load := make([]float64, 2)
	if !p.Predict(0, []float32{2, 1, 3, 1, 1, 4}, 3, load) || !slices.Equal(load, []float64{1, 2}) {
		t.Errorf("loads are %v; the choices 0, 0, 1 should have been swapped", load)
	}
}

func TestHistoryForgets(t *testing.T) {
	g := Gates{Hidden: 1, Experts: 2, TopK: 1, Layers: [][]float32{{1, 1}, {1, 1}}}
	h, err := NewHistory(g, 1, 2)
	check(t, err)
	load := make([]float64, 2)
	for i, step := range []struct{ seen, want []float64 }{
		{[]float64{8, 0}, []float64{4, 0}},
		{[]float64{0, 8}, []float64{2, 2}},
		{[]float64{0, 8}, []float64{0, 4}},
	} {
		h.Observe(1, step.seen)
		if !h.Predict(0, nil, 4, load) || !slices.Equal(load, step.want) {
			t.Errorf("after %d batches: %v, want %v", i+1, load, step.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	ok := Gates{Hidden: 1, Experts: 2, TopK: 1, Layers: [][]float32{{1, 1}, {1, 1}}}
	short, many := ok, ok
	short.Layers = [][]float32{{1, 1}, {1}}
	many.TopK = 3
	tests := []struct {
		name     string
		gates    Gates
		distance int
		tuned    map[int]Tuned
	}{
		{"no distance", ok, 0, nil},
		{"far", ok, 2, nil},
		{"short gate", short, 1, nil},
		{"too many chosen", many, 1, nil},
		{"weights for no target", ok, 1, map[int]Tuned{0: {Gate: []float32{1, 1}}}},
		{"no adapter", ok, 1, map[int]Tuned{1: {Gate: []float32{1, 1}, Adapter: &Network{}}}},
		{"short weights", ok, 1, map[int]Tuned{1: {Gate: []float32{1}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := LayerAware(tt.gates, tt.distance, tt.tuned); err == nil {
				t.Error("it was taken")
			}
		})
	}
}
