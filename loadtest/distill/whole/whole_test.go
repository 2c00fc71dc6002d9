package whole

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

var texts = [][]uint32{{0, 7, 12, 99, 4, 3, 250, 11}, {0, 5, 5, 8}}

func open(t *testing.T, name string) (*model.Model, *Network) {
	t.Helper()
	m, err := model.Open(goldens.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	n, err := Open(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, n
}

// Without a brownout a lane gives what direct calls give.
func TestForward(t *testing.T) {
	for _, name := range []string{"qwen2_moe", "mixtral"} {
		m, n := open(t, name)
		p := pool.New(1)
		defer p.Close()
		r, err := direct.New(m, p, direct.Settings{Wire: tensor.F32, MaxPositions: 32, KVBytes: 1 << 24})
		if err != nil {
			t.Fatal(err)
		}
		var want []float32
		for _, ids := range texts {
			s, err := r.Add(ids, 1, sampling.Params{})
			if err != nil {
				t.Fatal(err)
			}
			logits, err := r.Logits(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, logits...)
			s.Close()
		}
		l := n.NewLane()
		if err := l.Forward(texts, nil); err != nil {
			t.Fatal(err)
		}
		got := multiply(nil, l.Hidden(), l.rows, n.head.forth)
		for i, v := range want {
			if math.Abs(float64(v-got[i])) > 2e-3 {
				t.Fatalf("%s: logit %d of %d is %v, by direct calls %v", name, i, len(want), got[i], v)
			}
		}
	}
}

// browned hands all rows of the last experts over to students of groups of four.
func browned(n *Network, students [][]*Student) Decider {
	split, count := &brownout.Splitter{}, make([]int32, n.spec.Experts)
	return func(layer int, r *forward.Routes) ([]*Student, func(int32) int, error) {
		clear(count)
		for _, e := range r.Expert {
			count[e]++
		}
		d, err := split.Split(brownout.Settings{Strategy: brownout.Partial, Way: 4, Threshold: 200_000}, brownout.Rows{Count: count})
		if err != nil {
			return nil, nil, err
		}
		for i := 0; i < len(r.Expert); i += r.K {
			d.Redirect(r.Expert[i:i+r.K], r.Weight[i:i+r.K])
		}
		return students[layer], func(e int32) int { return int(e) / 4 }, nil
	}
}

// The gradients are what small changes of students' weights show.
func TestGradient(t *testing.T) {
	for _, name := range []string{"qwen2_moe", "mixtral"} {
		m, n := open(t, name)
		random := rand.New(rand.NewPCG(2, 2))
		weights := func(count int) []float32 {
			w := make([]float32, count)
			for i := range w {
				w[i] = float32(random.NormFloat64() / 4)
			}
			return w
		}
		d, students := m.Spec.Hidden, make([][]*Student, len(n.layers))
		for i, spec := range m.Spec.Layer {
			for range brownout.Groups(m.Spec.Experts, 4) {
				f := spec.Expert.Width
				students[i] = append(students[i], NewStudent(d, f, weights(2*f*d), weights(f*d)))
			}
		}
		decide, l := browned(n, students), n.NewLane()
		if err := l.Forward(texts, nil); err != nil {
			t.Fatal(err)
		}
		wanted := slices.Clone(l.Hidden())
		loss := func() float64 {
			if err := l.Forward(texts, decide); err != nil {
				t.Fatal(err)
			}
			return l.Divergence(wanted) / float64(l.rows)
		}
		loss()
		l.Backward(wanted)
		seen := 0
		gradients := make([][]Gradient, len(l.Gradients))
		for i := range gradients {
			for _, g := range l.Gradients[i] {
				gradients[i] = append(gradients[i], Gradient{slices.Clone(g.In), slices.Clone(g.Down)})
			}
		}
		for i, layer := range gradients {
			for k, g := range layer {
				s := students[i][k]
				for _, of := range []struct{ w, grad []float32 }{{s.In.W, g.In}, {s.Down.W, g.Down}} {
					if of.grad == nil {
						continue
					}
					seen++
					along(t, name, random, s, of.w, of.grad, loss)
				}
			}
		}
		if seen < 2*len(n.layers) {
			t.Errorf("%s: %d gradients of %d layers", name, seen, len(n.layers))
		}
	}
}

// along compares a gradient with what the loss does along a direction that is half the gradient's.
func along(t *testing.T, name string, random *rand.Rand, s *Student, w, grad []float32, loss func() float64) {
	t.Helper()
	direction, norm := make([]float64, len(w)), 0.0
	for _, v := range grad {
		norm += float64(v) * float64(v)
	}
	norm = math.Sqrt(norm)
	want := 0.0
	for i, v := range grad {
		direction[i] = float64(v)/norm + random.NormFloat64()/math.Sqrt(float64(len(w)))
		want += direction[i] * float64(v)
	}
	was, step := slices.Clone(w), 0.002
	move := func(by float64) float64 {
		for i := range w {
			w[i] = was[i] + float32(by*direction[i])
		}
		s.Pack()
		return loss()
	}
	got := (move(step) - move(-step)) / (2 * step)
	move(0)
	if math.Abs(got-want) > 0.02*math.Abs(want)+1e-3 {
		t.Errorf("%s: the loss changes by %v along a direction, by the gradient by %v", name, got, want)
	}
}

// What is not computed is named.
func TestCheck(t *testing.T) {
	for name, want := range map[string]string{
		"bert_moe": "an encoder", "deepseek_v3": "no grouped-query attention", "gpt_oss": "layer 0 has",
	} {
		m, err := model.Open(goldens.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
