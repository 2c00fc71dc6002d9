package forward

import (
	"math"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

func ropeOf(t *testing.T, s model.RopeSpec) *rope {
	t.Helper()
	r, err := newRope(s, 5000)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each kind turns the pairs that it says, by the angle of the position, and leaves
// what is beyond its dimensions.
func TestRopeTurns(t *testing.T) {
	const c, heads, position = 12, 3, 4711
	for _, tc := range []struct {
		name string
		spec model.RopeSpec
	}{
		{"half split", model.RopeSpec{Kind: model.HalfSplit, Dim: c, Theta: 1e4}},
		{"interleaved", model.RopeSpec{Kind: model.Interleaved, Dim: c, Theta: 1e4}},
		{"partial", model.RopeSpec{Kind: model.HalfSplit, Dim: 8, Theta: 1e4}},
		{"scaled", model.RopeSpec{Kind: model.Interleaved, Dim: c, Theta: 1e4, Scaling: model.RopeScaling{Attention: 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := noise(1, heads*c)
			got := append([]float32(nil), x...)
			ropeOf(t, tc.spec).turn(got, heads, c, &Row{Position: position})
			for h := range heads {
				want := turned(tc.spec, x[h*c:(h+1)*c], position)
				if d := farthest(got[h*c:(h+1)*c], want); d > 1e-6 {
					t.Errorf("head %d differs by %v: %v, want %v", h, d, got[h*c:(h+1)*c], want)
				}
			}
		})
	}
}

// turned is the plain form, by package ref's half-split rotation.
func turned(s model.RopeSpec, head []float32, position int) []float32 {
	angles := make([]float32, s.Dim/2)
	for i := range angles {
		angles[i] = float32(position) * float32(math.Pow(s.Theta, -float64(2*i)/float64(s.Dim)))
	}
	part := append([]float32(nil), head[:s.Dim]...)
	if s.Kind == model.Interleaved {
		for i := range s.Dim / 2 {
			part[i], part[i+s.Dim/2] = head[2*i], head[2*i+1]
		}
	}
	part = ref.Rotate(part, angles)
	out := append([]float32(nil), head...)
	copy(out, part)
	if s.Kind == model.Interleaved {
		for i := range s.Dim / 2 {
			out[2*i], out[2*i+1] = part[i], part[i+s.Dim/2]
		}
	}
	return out
}

func TestNoRope(t *testing.T) {
	x := noise(1, 8)
	got := append([]float32(nil), x...)
	if ropeOf(t, model.RopeSpec{}).turn(got, 1, 8, &Row{Position: 3}); !same(got, x) {
		t.Error("it turned")
	}
}

// Wavelengths that fit the original context more than HighFactor times stay; those
// that fit it less than LowFactor times are Factor times as long; the others lie
// between, in order.
func TestLlama3(t *testing.T) {
	s := model.RopeSpec{Kind: model.HalfSplit, Dim: 128, Theta: 5e5,
		Scaling: model.RopeScaling{Kind: model.Llama3, Factor: 8, Original: 8192, LowFactor: 1, HighFactor: 4}}
	before, after, between := plain(&s), llama3(&s), 0
	for i, f := range before {
		turns := 8192 * float64(f) / (2 * math.Pi)
		switch ratio := f / after[i]; {
		case turns > 4 && ratio != 1, turns < 1 && ratio != 8, ratio < 1 || ratio > 8:
			t.Errorf("frequency %d turns %v times and is divided by %v", i, turns, ratio)
		case turns >= 1 && turns <= 4:
			between++
		}
		if i > 0 && after[i] >= after[i-1] {
			t.Errorf("frequency %d is not below the one before", i)
		}
	}
	if between == 0 {
		t.Error("none is between")
	}
}

// A long sequence has other frequencies and another scale.
func TestLongRope(t *testing.T) {
	s := model.RopeSpec{Kind: model.HalfSplit, Dim: 2, Theta: 1e4, Scaling: model.RopeScaling{
		Kind: model.LongRope, Original: 10, ShortFactors: []float64{2}, LongFactors: []float64{4}, Attention: 1.5, LongAttention: 3}}
	r := ropeOf(t, s)
	for _, tc := range []struct {
		long         bool
		angle, scale float64
	}{{false, 4, 1.5}, {true, 2, 3}} {
		x := []float32{1, 0}
		r.turn(x, 1, 2, &Row{Position: 8, Long: tc.long})
		want := []float32{float32(tc.scale * math.Cos(tc.angle)), float32(tc.scale * math.Sin(tc.angle))}
		if d := farthest(x, want); d > 1e-6 {
			t.Errorf("long %v: %v, want %v", tc.long, x, want)
		}
	}
}

// Tables are made where they are asked for, by any number of goroutines.
func TestAnglesConcurrently(t *testing.T) {
	a := newAngles([]float32{1, 0.5}, 1, 3*anglePositions)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for p := range 3 * anglePositions {
				cos, sin := a.at(p)
				if cos[1] != float32(math.Cos(float64(p)/2)) || sin[0] != float32(math.Sin(float64(p))) {
					t.Errorf("position %d: %v, %v", p, cos, sin)
					return
				}
			}
		})
	}
	wg.Wait()
}
