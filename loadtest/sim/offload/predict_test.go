package offload

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

func access(bytes float64) cost.Access { return cost.Access{Bytes: bytes, Rows: 1} }

// foreseen is the recall of a kind.
func recall(t *testing.T, lab *Lab, k Kind) float64 {
	t.Helper()
	f, err := lab.Foresee(Policy{Name: string(k), Predictor: k})
	if err != nil {
		t.Fatal(err)
	}
	return f.Recall
}

// What correlates is foreseen better than by chance, what does not is not, and the oracle
// foresees everything.
func TestRecall(t *testing.T) {
	m := Model{Name: "m", Shape: routing.Shape{Layers: 8, Experts: 16, TopK: 2}, ExpertBytes: 1e8, LayerBytes: 1e7, HeadBytes: 1e7}
	texts := Texts{Before: 20, Served: 8, Prompt: 8, Answer: 24, Domains: 3}
	lab := func(p routing.StateParams) *Lab {
		traffic, err := Synthetic(m, p, texts, 2)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewLab(traffic, bed(t), DefaultDelays(), 2, 1000, 1)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	chance := float64(m.TopK) / float64(m.Experts)
	strong, none := lab(routing.DemoStates().Stronger(3)), lab(routing.DemoStates().Unpredictable())
	for _, k := range []Kind{Reused, Learned, Counted, Searched} {
		if got := recall(t, strong, k); got < 1.5*chance {
			t.Errorf("%s foresees %.3f of what correlates; by chance it were %.3f", k, got, chance)
		}
		if got := recall(t, none, k); got > 1.5*chance {
			t.Errorf("%s foresees %.3f of what nothing foretells", k, got)
		}
	}
	if got := recall(t, none, Known); got != 1 {
		t.Errorf("the oracle foresees %v", got)
	}
	if got := recall(t, none, Streamed); got != 1 {
		t.Errorf("streaming names %v", got)
	}
	if got := recall(t, none, Nothing); got != 0 {
		t.Errorf("nothing foresees %v", got)
	}
}

// Calibrated chances are as often right as they say: where nothing foretells anything they are
// those of any expert.
func TestCalibrated(t *testing.T) {
	m := Model{Name: "m", Shape: routing.Shape{Layers: 6, Experts: 8, TopK: 2}, ExpertBytes: 1e8, LayerBytes: 1e7, HeadBytes: 1e7}
	for name, p := range map[string]routing.StateParams{"strong": routing.DemoStates().Stronger(3), "unpredictable": routing.DemoStates().Unpredictable()} {
		traffic, err := Synthetic(m, p, Texts{Before: 20, Served: 10, Prompt: 8, Answer: 30, Domains: 3}, 4)
		if err != nil {
			t.Fatal(err)
		}
		lab, err := NewLab(traffic, bed(t), DefaultDelays(), 2, 1000, 1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := lab.Foresee(Policy{Predictor: Calibrated})
		if err != nil {
			t.Fatal(err)
		}
		var said, used, spread, n float64
		for s, step := range lab.work.Steps {
			for l := -1; l < m.Layers && !step.Prefill; l++ {
				for _, look := range f.At(s, l) {
					for e, chance := range look.Told {
						if look.Next {
							continue
						}
						n++
						said += float64(chance)
						spread += math.Abs(float64(chance) - 0.25)
						if lab.work.Loads(s, look.Target)[e] > 0 {
							used++
						}
					}
				}
			}
		}
		if math.Abs(said-used)/n > 0.03 {
			t.Errorf("%s: %.3f are said to be used, %.3f are", name, said/n, used/n)
		}
		if flat := spread/n < 0.08; flat != (name == "unpredictable") {
			t.Errorf("%s: chances are %.3f from any expert's", name, spread/n)
		}
	}
}

// A linear map is learned.
func TestRegress(t *testing.T) {
	g, err := routing.NewStates(routing.Shape{Layers: 3, Experts: 4, TopK: 1}, routing.StateParams{Layer: 1, Sharp: 1}, 9)
	if err != nil {
		t.Fatal(err)
	}
	texts := []*routing.Rows{g.Rows(routing.Text{ID: 1, Rows: 400}, 1), g.Rows(routing.Text{ID: 2, Rows: 400}, 1)}
	learned := &speculation{w: &Workload{Gates: &g.Gates}, distance: 2, learned: train(&g.Gates, texts, 2)}
	row, most := make([]float32, 4), 0.0
	fresh := g.Rows(routing.Text{ID: 3, Rows: 50}, 1)
	for r := range fresh.N { // states do not change from layer to layer
		learned.guess(0, fresh.State(r, 0), row)
		for e, p := range fresh.Of(r, 2) {
			most = max(most, math.Abs(float64(p-row[e])))
		}
	}
	if most > 0.1 {
		t.Errorf("chances are %.3f off", most)
	}
}

// Requests that used the same experts are found by their counts.
func TestCounts(t *testing.T) {
	s := routing.Shape{Layers: 2, Experts: 4, TopK: 1}
	fixed := func(experts ...uint16) *routing.Rows {
		r := routing.NewRows(s, 1, len(experts), 1)
		for i, e := range experts {
			r.Chosen(i, 0)[0], r.Chosen(i, 1)[0] = e, 3-e
		}
		return r
	}
	g := &routing.Gates{Shape: s, Width: 1}
	w, err := NewWorkload(Model{Shape: s}, g, []*routing.Rows{fixed(2, 2, 2)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	c := newCounts(w, []*routing.Rows{fixed(0, 0, 0), fixed(2, 2, 0), fixed(0, 1, 0)}, 1, false)
	c.Begin(0)
	c.Look(-1, func(l Look) {
		if len(l.Fetch) != 1 || l.Fetch[0].Expert != 0 { // the most popular one
			t.Errorf("%+v", l)
		}
	})
	c.Look(0, func(l Look) {
		if l.Target != 1 || len(l.Fetch) != 1 || l.Fetch[0].Expert != 1 {
			t.Errorf("%+v", l)
		}
	})
}

// Where nothing can be foretold prefetching takes next to nothing.
func TestUnpredictable(t *testing.T) {
	for _, name := range Models() {
		m, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		traffic, err := Synthetic(m, routing.DemoStates().Unpredictable(), Texts{Before: 20, Served: 3, Prompt: 16, Answer: 24, Domains: 2}, 7)
		if err != nil {
			t.Fatal(err)
		}
		lab, err := NewLab(traffic, bed(t), DefaultDelays(), 3, 1000, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, shared := range []bool{false, true} { // what is foreseen is the same
			if shared {
				lab.Shared = lab.Link.Bandwidth
			}
			for _, gb := range []float64{6, 24} {
				var took [2]float64
				for i, of := range []string{Ours, Unfetched} {
					p, err := Find(of)
					if err != nil {
						t.Fatal(err)
					}
					took[i] = run(t, lab, p, gb*1e9).TPOT()
				}
				if took[0] > 1.02*took[1] {
					t.Errorf("%s with %v GB, one link %v: a step takes %.3f of that without prefetching", name, gb, shared, took[0]/took[1])
				}
			}
		}
	}
}
