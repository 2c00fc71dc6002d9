package forward

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
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

func compute(t testing.TB, b *Bank, in Routed) []float32 {
	t.Helper()
	out := make([]float32, len(in.Expert)*b.m.Spec.Hidden)
	if err := b.Compute(in, out, &BankScratch{}); err != nil {
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
// sizes reach all ways of cutting the work: inline, side by side, one by one.
func TestComputeRowInvariant(t *testing.T) {
	m := tiny(t)
	b, d := warm(t, m, threads(t)), m.Spec.Hidden
	for _, tc := range []struct {
		name       string
		n, experts int
	}{{"inline", 17, 4}, {"side by side", 600, 4}, {"one by one", 2600, 1}} {
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

// Scratch from other work changes nothing.
func TestComputeReusesScratch(t *testing.T) {
	m := tiny(t)
	b, d := warm(t, m, threads(t)), m.Spec.Hidden
	var s BankScratch
	rapid.Check(t, func(t *rapid.T) {
		in := entries(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 40).Draw(t, "n"), 6, 4)
		in.X = noise(9, 6*d)
		fresh, reused := make([]float32, len(in.Expert)*d), make([]float32, len(in.Expert)*d)
		if err := b.Compute(in, fresh, &BankScratch{}); err != nil {
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
	m := tiny(t)
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

func TestNotWarm(t *testing.T) {
	b := NewBank(tiny(t), threads(t))
	if err := b.Load(ExpertID{0, 1}); err != nil {
		t.Fatal(err)
	}
	for _, in := range []Routed{
		{Layer: 0, Expert: []uint32{1, 2}}, {Layer: 1, Expert: []uint32{1}}, {Layer: 0, Expert: []uint32{1 << 31}},
	} {
		n := len(in.Expert)
		in.X, in.Source, in.Weight = make([]float32, 64), make([]uint32, n), make([]float32, n)
		if err := b.Compute(in, make([]float32, n*64), &BankScratch{}); !errors.Is(err, ErrNotWarm) {
			t.Errorf("%v: %v, want ErrNotWarm", in.Expert, err)
		}
	}
}

// Warm and Bytes are what loads and evictions in any order leave.
func TestLoadAndEvict(t *testing.T) {
	m, p := tiny(t), threads(t)
	lone := NewBank(m, p)
	if err := lone.Load(ExpertID{0, 0}); err != nil {
		t.Fatal(err)
	}
	size := lone.Bytes()
	if want := m.Spec.ExpertParameters() * 2; size < want || size > want*3/2 {
		t.Errorf("an expert takes %d bytes, its bf16 weights %d", size, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		b, want := NewBank(m, p), map[ExpertID]bool{}
		id := rapid.Custom(func(t *rapid.T) ExpertID {
			return ExpertID{rapid.IntRange(0, 1).Draw(t, "layer"), rapid.IntRange(0, 3).Draw(t, "expert")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"load": func(t *rapid.T) {
				x := id.Draw(t, "id")
				if err := b.Load(x); err != nil {
					t.Fatal(err)
				}
				want[x] = true
			},
			"evict": func(t *rapid.T) {
				x := id.Draw(t, "id")
				b.Evict(x)
				delete(want, x)
			},
			"": func(t *rapid.T) {
				got := b.Warm()
				for _, x := range got {
					if !want[x] {
						t.Fatalf("%v is warm", x)
					}
				}
				if len(got) != len(want) || b.Bytes() != int64(len(want))*size {
					t.Fatalf("%v warm in %d bytes, want %v", got, b.Bytes(), want)
				}
			},
		})
	})
}

func TestLoadUnknownExpert(t *testing.T) {
	b := NewBank(tiny(t), threads(t))
	for _, id := range []ExpertID{{0, 4}, {2, 0}, {-1, 0}, {0, -1}} {
		if err := b.Load(id); err == nil {
			t.Errorf("%v was loaded", id)
		}
	}
	if len(b.Warm()) != 0 || b.Bytes() != 0 {
		t.Errorf("%v, %d bytes", b.Warm(), b.Bytes())
	}
}
