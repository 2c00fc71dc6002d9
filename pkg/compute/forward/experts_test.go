package forward

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// entries draws work: rows of X in any order, each for any expert.
func entries(seed uint64, n, rows, experts int) Routed {
	g := rand.New(rand.NewPCG(seed, 2))
	in := Routed{Layer: int(seed % 2)}
	for range n {
		in.Source = append(in.Source, uint32(g.IntN(rows)))
		in.Expert = append(in.Expert, uint32(g.IntN(experts)))
		in.Weight = append(in.Weight, g.Float32())
	}
	return in
}

func compute(t testing.TB, b *loaded, in Routed) []float32 {
	t.Helper()
	out := make([]float32, len(in.Expert)*b.spec.Hidden)
	if err := b.Compute(in, out, &ExpertScratch{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// one is entry i of in alone.
func one(in Routed, i, d int) Routed {
	src := int(in.Source[i])
	return Routed{
		Layer: in.Layer, X: in.X[src*d : (src+1)*d], Source: []uint32{0},
		Expert: in.Expert[i : i+1], Weight: in.Weight[i : i+1],
	}
}

// A row's result is the same alone, in a batch, and in another order. The
// sizes reach all ways of cutting the work: inline, side by side, in parts.
func TestComputeRowInvariant(t *testing.T) {
	m := modeltest.Tiny(t)
	b, d := warm(t, m, threads(t)), m.Spec.Hidden
	for _, tc := range []struct {
		name       string
		n, experts int
	}{{"inline", 17, 4}, {"side by side", 600, 4}, {"in parts", 2600, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			in := entries(5, tc.n, 50, tc.experts)
			in.X = noise(5, 50*d)
			all := compute(t, b, in)
			order := rand.New(rand.NewPCG(1, 1)).Perm(tc.n)
			shuffled := Routed{Layer: in.Layer, X: in.X}
			for _, i := range order {
				shuffled.Source = append(shuffled.Source, in.Source[i])
				shuffled.Expert = append(shuffled.Expert, in.Expert[i])
				shuffled.Weight = append(shuffled.Weight, in.Weight[i])
			}
			other := compute(t, b, shuffled)
			for at, i := range order {
				if !same(all[i*d:(i+1)*d], other[at*d:(at+1)*d]) {
					t.Fatalf("entry %d differs in another order", i)
				}
			}
			for i := 0; i < tc.n; i += 1 + tc.n/40 {
				if !same(all[i*d:(i+1)*d], compute(t, b, one(in, i, d))) {
					t.Fatalf("entry %d differs alone", i)
				}
			}
		})
	}
}

// Groups that are computed together, matrix by matrix, give the same, also of rows that are rounded first.
func TestComputeSpread(t *testing.T) {
	for _, precision := range []model.Precision{model.AsStored, model.W16A16} {
		for _, n := range []int{1, 900} {
			m := modeltest.Tiny(t)
			m.In(precision)
			p := threads(t)
			b, d := warm(t, m, p), m.Spec.Hidden
			in := entries(6, n, 50, 3)
			in.X = noise(6, 50*d)
			want, got := make([]float32, n*d), make([]float32, n*d)
			var s ExpertScratch
			s.group(in)
			if err := s.borrow(b); err != nil {
				t.Fatal(err)
			}
			s.x, s.y, s.inner = make([]float32, len(got)), make([]float32, len(got)), make([]float32, s.groups[0].expert.floatsFor(n))
			for _, g := range s.groups {
				s.runShort(g, &in, want)
			}
			s.runSpread(workers{Pool: p}, &in, got)
			if !same(got, want) {
				t.Errorf("in %q the bits of %d entries differ", precision, n)
			}
			s.giveBack(b)
		}
	}
}

// Scratch from other work changes nothing.
func TestComputeReusesScratch(t *testing.T) {
	m := modeltest.Tiny(t)
	b, d := warm(t, m, threads(t)), m.Spec.Hidden
	var s ExpertScratch
	rapid.Check(t, func(t *rapid.T) {
		in := entries(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 40).Draw(t, "n"), 6, 4)
		in.X = noise(9, 6*d)
		fresh, reused := make([]float32, len(in.Expert)*d), make([]float32, len(in.Expert)*d)
		if err := b.Compute(in, fresh, &ExpertScratch{}); err != nil {
			t.Fatal(err)
		}
		if err := b.Compute(in, reused, &s); err != nil {
			t.Fatal(err)
		}
		if !same(fresh, reused) {
			t.Fatal("results differ")
		}
	})
}

// The weight scales the result and nothing else.
func TestComputeWeights(t *testing.T) {
	m := modeltest.Tiny(t)
	b, d := warm(t, m, threads(t)), m.Spec.Hidden
	in := Routed{X: noise(2, d), Source: []uint32{0, 0, 0}, Expert: []uint32{1, 1, 2}, Weight: []float32{1, 0.5, 1}}
	out := compute(t, b, in)
	differ := false
	for i := range d {
		if out[d+i] != out[i]*0.5 {
			t.Fatalf("%v and %v", out[i], out[d+i])
		}
		differ = differ || out[i] != out[2*d+i]
	}
	if !differ {
		t.Error("two experts gave the same")
	}
}

// One expert that is missing is an error, and the others are given back.
func TestNotWarm(t *testing.T) {
	b := warm(t, modeltest.Tiny(t), threads(t))
	delete(b.experts, ExpertID{0, 2})
	for _, in := range []Routed{
		{Layer: 0, Expert: []uint32{1, 2}}, {Layer: 2, Expert: []uint32{1}}, {Layer: 0, Expert: []uint32{0, 1 << 31}},
	} {
		n := len(in.Expert)
		in.X, in.Source, in.Weight = make([]float32, 64), make([]uint32, n), make([]float32, n)
		if err := b.Compute(in, make([]float32, n*64), &ExpertScratch{}); !errors.Is(err, ErrNotWarm) {
			t.Errorf("%v: %v, want ErrNotWarm", in.Expert, err)
		}
	}
}

// ExpertBytes knows the bytes before the expert is loaded, in every type.
func TestExpertBytes(t *testing.T) {
	for _, tt := range []struct {
		m    *model.Model
		bits float64 // of a weight, biases and padding aside
	}{
		{modeltest.Tiny(t), 16}, {modeltest.Golden(t, "mixtral"), 16}, {modeltest.Golden(t, "qwen2_moe-mixed"), 16},
		{modeltest.Golden(t, "gpt_oss"), 16}, {modeltest.Golden(t, "gpt_oss-mxfp4"), 4.25},
	} {
		m, last := tt.m, ExpertID{Expert: tt.m.Spec.Experts - 1}
		for !m.Spec.Layer[last.Layer].MoE {
			last.Layer++
		}
		e, err := loadExpert(t.Context(), m, last)
		if err != nil {
			t.Fatal(err)
		}
		biases := len(e.inBias) + len(e.downBias)
		weights := m.Spec.ExpertParameters() - int64(biases)
		n, err := ExpertBytes(m, last)
		if err != nil || n != e.Bytes() || float64(n-int64(4*biases))*8 < tt.bits*float64(weights) {
			t.Errorf("%s: %v takes %d bytes, %d foreseen, %v", m.Name, last, e.Bytes(), n, err)
		}
		if bits := float64(n-int64(4*biases)) * 8 / float64(weights); tt.bits < 16 && bits != tt.bits {
			t.Errorf("%s: %v bits a weight, want %v", m.Name, bits, tt.bits)
		}
	}
}

func TestUnknownExpert(t *testing.T) {
	m := modeltest.Tiny(t)
	for _, id := range []ExpertID{{0, 4}, {2, 0}, {-1, 0}, {0, -1}} {
		if _, err := loadExpert(t.Context(), m, id); err == nil {
			t.Errorf("%v was loaded", id)
		}
		if _, err := ExpertBytes(m, id); err == nil {
			t.Errorf("%v has a size", id)
		}
	}
}

func TestLoadExpertCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := loadExpert(ctx, modeltest.Tiny(t), ExpertID{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
