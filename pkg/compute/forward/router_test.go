package forward

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

func loadRouter(t *testing.T, m *model.Model) *Router {
	t.Helper()
	r, err := LoadRouter(m, threads(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every row gets K different experts, best first, with the weights that the
// model's family wants: normalised to 1, or shares of all experts.
func TestRoute(t *testing.T) {
	for _, name := range []string{"mixtral", "qwen2_moe"} {
		m := modeltest.Golden(t, name)
		r := loadRouter(t, m)
		rapid.Check(t, func(t *rapid.T) {
			rows := rapid.IntRange(1, 9).Draw(t, "rows")
			x := noise(rapid.Uint64().Draw(t, "seed"), rows*m.Spec.Hidden)
			var got Routes
			if err := r.Route(0, x, &got); err != nil {
				t.Fatal(err)
			}
			if got.Rows() != rows || got.K != m.Spec.TopK {
				t.Fatalf("%s: (%d, %d)", name, got.Rows(), got.K)
			}
			for i := range rows {
				checkRoute(t, m.Spec, got.Expert[i*got.K:(i+1)*got.K], got.Weight[i*got.K:(i+1)*got.K])
			}
		})
	}
}

func checkRoute(t *rapid.T, spec model.Spec, experts []int32, weights []float32) {
	sum := 0.0
	for i, w := range weights {
		sum += float64(w)
		if w <= 0 || i > 0 && w > weights[i-1] {
			t.Fatalf("weights %v", weights)
		}
	}
	if spec.Layer[0].Router.Normalise && math.Abs(sum-1) > 1e-6 || sum > 1+1e-6 {
		t.Fatalf("weights %v sum to %v", weights, sum)
	}
	sorted := slices.Sorted(slices.Values(experts))
	if len(slices.Compact(sorted)) != len(experts) || sorted[0] < 0 || int(sorted[len(sorted)-1]) >= spec.Experts {
		t.Fatalf("experts %v", experts)
	}
}

// A row's route is the same alone and in any company.
func TestRouteRowInvariant(t *testing.T) {
	m := modeltest.Tiny(t)
	r, d := loadRouter(t, m), m.Spec.Hidden
	const rows = 70
	x := noise(3, rows*d)
	var all, alone Routes
	if err := r.Route(1, x, &all); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := r.Route(1, x[i*d:(i+1)*d], &alone); err != nil {
			t.Fatal(err)
		}
		at := i * all.K
		if !slices.Equal(alone.Expert, all.Expert[at:at+all.K]) || !same(alone.Weight, all.Weight[at:at+all.K]) {
			t.Fatalf("row %d: %v %v alone, %v %v in a batch", i, alone.Expert, alone.Weight, all.Expert[at:at+all.K], all.Weight[at:at+all.K])
		}
	}
}

// The best k logits share all of the weight.
func TestTopKSoftmax(t *testing.T) {
	out := Routes{K: 2, Expert: make([]int32, 4), Weight: make([]float32, 4)}
	topKSoftmax{}.choose(&out, []float32{1, 3, 2, 0, -1, -1, 5, -1}, 4, 0, 2)
	near := 1 / (1 + math.Exp(-1))
	if !slices.Equal(out.Expert, []int32{1, 2, 2, 0}) || math.Abs(float64(out.Weight[0])-near) > 1e-6 ||
		math.Abs(float64(out.Weight[2]+out.Weight[3])-1) > 1e-6 {
		t.Errorf("%v %v", out.Expert, out.Weight)
	}
}

// Equal logits choose the lower ids.
func TestRouteTies(t *testing.T) {
	m := modeltest.Tiny(t)
	var got Routes
	if err := loadRouter(t, m).Route(0, make([]float32, m.Spec.Hidden), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Expert, []int32{0, 1}) || !slices.Equal(got.Weight, []float32{0.5, 0.5}) {
		t.Errorf("%v %v", got.Expert, got.Weight)
	}
}

func TestRouteLayersWithoutGate(t *testing.T) {
	m := modeltest.Golden(t, "qwen2_moe-mixed")
	r := loadRouter(t, m)
	for l := -1; l <= m.Spec.Layers; l++ {
		moe := l >= 0 && l < m.Spec.Layers && m.Spec.Layer[l].MoE
		if err := r.Route(l, make([]float32, m.Spec.Hidden), &Routes{}); (err == nil) != moe {
			t.Errorf("layer %d: %v, has experts: %v", l, err, moe)
		}
	}
}
