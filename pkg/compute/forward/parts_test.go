package forward

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/ref"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// Norms of queries and keys take as many elements together as their weights have,
// on the side of rotary embedding that they belong to.
func TestQKNorm(t *testing.T) {
	const c = 6
	for _, tc := range []struct {
		name  string
		width int // of what is normalised together
		after bool
	}{{"head by head", c, false}, {"all heads", 2 * c, false}, {"after positions", c, true}} {
		t.Run(tc.name, func(t *testing.T) {
			n := &qkNorm{q: noise(1, tc.width), k: noise(2, tc.width), eps: 1e-5, rotated: tc.after}
			q, k := noise(3, 2*c), noise(4, 2*c)
			var want []float32
			for part := range slices.Chunk(q, tc.width) {
				want = append(want, ref.RMSNorm(part, n.q, 1e-5)...)
			}
			untouched := slices.Clone(q)
			first, second := n.before, n.after
			if tc.after {
				first, second = n.after, n.before
			}
			if second(q, k); !same(q, untouched) {
				t.Error("it is applied on the wrong side")
			}
			if first(q, k); farthest(q, want) > 1e-6 {
				t.Errorf("%v, want %v", q, want)
			}
		})
	}
	var none *qkNorm
	x := noise(5, c)
	if got := slices.Clone(x); true {
		none.before(got, nil)
		if none.after(got, nil); !same(got, x) {
			t.Error("no norm changed something")
		}
	}
}

func TestClip(t *testing.T) {
	x := []float32{-3, -1, 0, 2.5, 2}
	if clip(x, 0); x[0] != -3 {
		t.Error("no limit clipped")
	}
	if clip(x, 2); !slices.Equal(x, []float32{-2, -1, 0, 2, 2}) {
		t.Error(x)
	}
}

func TestTemperature(t *testing.T) {
	s := model.TemperatureSpec{Floor: 32, Scale: 0.1}
	for position, want := range map[int]float64{0: 1, 30: 1, 31: 1 + 0.1*math.Log(2), 62: 1 + 0.1*math.Log(2), 63: 1 + 0.1*math.Log(3)} {
		if got := Temperature(s, position); math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("position %d: %v, want %v", position, got, want)
		}
	}
}

// routesOf lets a chooser choose for one row.
func routesOf(c chooser, k int, logits ...float32) *Routes {
	r := &Routes{}
	r.resize(1, k, len(logits))
	c.choose(r, slices.Clone(logits), len(logits), 0, 1)
	return r
}

func TestTopKSigmoid(t *testing.T) {
	r := routesOf(topKSigmoid{}, 2, 0, 3, -1, 3)
	want := []float32{float32(ref.Sigmoid(3)), float32(ref.Sigmoid(3))}
	if !slices.Equal(r.Expert, []int32{1, 3}) || farthest(r.Weight, want) > 1e-6 {
		t.Errorf("%v %v", r.Expert, r.Weight)
	}
}

// Each choice's weight is its share among those near enough to it, the second
// choice's without the first.
func TestSparseMixer(t *testing.T) {
	near := func(logits []float64) float32 { return float32(ref.Softmax(logits)[0]) }
	for _, tc := range []struct {
		name    string
		logits  []float32
		experts []int32
		weights []float32
	}{
		{"all near", []float32{1, 0.99, 0.98}, []int32{0, 1}, []float32{near([]float64{1, 0.99, 0.98}), near([]float64{0.99, 0.98})}},
		{"one alone", []float32{0.1, 1, 0.2}, []int32{1, 2}, []float32{1, 1}},
		{"a pair", []float32{0.99, 1, 0.2}, []int32{1, 0}, []float32{near([]float64{1, 0.99}), 1}},
		{"ties", []float32{1, 1, 1}, []int32{0, 1}, []float32{1. / 3, 0.5}},
		{"below zero", []float32{-1, -1.01, -3}, []int32{0, 1}, []float32{near([]float64{-1, -1.01}), 1}},
		{"nothing", []float32{0, 0, 0}, []int32{0, 1}, []float32{1. / 3, 0.5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := routesOf(&sparseMixer{0.02}, 2, tc.logits...)
			if !slices.Equal(r.Expert, tc.experts) || farthest(r.Weight, tc.weights) > 1e-6 {
				t.Errorf("%v %v, want %v %v", r.Expert, r.Weight, tc.experts, tc.weights)
			}
		})
	}
}

// A row's choice does not depend on the others.
func TestChoosersAreRowInvariant(t *testing.T) {
	choosers := []chooser{&softmaxTopK{normalise: true, scale: 2}, topKSigmoid{}, &sparseMixer{0.5}}
	rapid.Check(t, func(t *rapid.T) {
		const experts, k = 9, 2
		rows := rapid.IntRange(1, 5).Draw(t, "rows")
		logits := noise(rapid.Uint64().Draw(t, "seed"), rows*experts)
		for _, c := range choosers {
			all := &Routes{}
			all.resize(rows, k, experts)
			c.choose(all, slices.Clone(logits), experts, 0, rows)
			for i := range rows {
				one := routesOf(c, k, logits[i*experts:(i+1)*experts]...)
				if !slices.Equal(one.Expert, all.Expert[i*k:(i+1)*k]) || !same(one.Weight, all.Weight[i*k:(i+1)*k]) {
					t.Fatalf("%T: row %d: %v %v alone", c, i, one.Expert, one.Weight)
				}
			}
		}
	})
}

// Weights on the input go in, and do not come out once more.
func TestWeightsOnInput(t *testing.T) {
	r := newRig(t, modeltest.Golden(t, "llama4"))
	d := r.m.Spec.Hidden
	x := noise(3, d)
	scaled := slices.Clone(x)
	scaleInto(scaled, x, 0.25)
	in := Routed{X: append(slices.Clone(x), scaled...), Source: []uint32{0, 1}, Expert: []uint32{3, 3}, Weight: []float32{0.25, 1}}
	out := compute(t, r.loaded, in)
	if !same(out[:d], out[d:]) {
		t.Error("a quarter of the weight is not a quarter of the input")
	}
}
