package forward

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// deepseekYarn is DeepSeek-V3's; kimiYarn has a ramp of no width.
var (
	deepseekYarn = model.RopeScaling{Kind: model.Yarn, Factor: 40, Original: 4096, BetaFast: 32, BetaSlow: 1, Truncate: true}
	kimiYarn     = model.RopeScaling{Kind: model.Yarn, Factor: 32, Original: 4096, BetaFast: 1, BetaSlow: 1, Truncate: true}
	gptYarn      = model.RopeScaling{Kind: model.Yarn, Factor: 32, Original: 4096, BetaFast: 32, BetaSlow: 1}
)

// Frequencies up to one stay as they are, those from another on are divided by
// the factor, and what lies between falls. The bounds are those of the paper's
// equation (arXiv:2309.00071, section 3.2), computed by hand.
func TestYarn(t *testing.T) {
	for _, tt := range []struct {
		name          string
		theta         float64
		scaling       model.RopeScaling
		last, first   int // the last of its own, the first that is divided
		between       int
		wantBetween   float64 // share of its own that is left there
		low, high     float32
		toleratedLeap float32
	}{
		{"deepseek", 1e4, deepseekYarn, 10, 23, 15, 8.0 / 13, 10, 23, 0},
		{"kimi", 5e4, kimiYarn, 19, 20, 19, 1, 19, 20, 0},
		{"gpt_oss", 150000, gptYarn, 8, 18, 12, 0.5801, 8.0928, 17.3980, 1e-3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &model.RopeSpec{Dim: 64, Theta: tt.theta, Scaling: tt.scaling}
			inv := yarn(s)
			own := func(i int) float64 { return math.Pow(tt.theta, -float64(2*i)/64) }
			equal := func(i int, want float64) {
				if math.Abs(float64(inv[i])/want-1) > 1e-3 {
					t.Errorf("frequency %d is %v, want %v", i, inv[i], want)
				}
			}
			low, high := yarnRange(s)
			if abs(low-tt.low) > tt.toleratedLeap || abs(high-tt.high) > tt.toleratedLeap {
				t.Errorf("the ramp is from %v to %v", low, high)
			}
			for i := range inv {
				if i <= tt.last {
					equal(i, own(i))
				}
				if i >= tt.first {
					equal(i, own(i)/tt.scaling.Factor)
				}
			}
			equal(tt.between, own(tt.between)*(tt.wantBetween+(1-tt.wantBetween)/tt.scaling.Factor))
		})
	}
}

func abs(x float32) float32 { return max(x, -x) }

// Kimi-K2's bounds meet: that is a step, not a division by zero.
func TestYarnStep(t *testing.T) {
	s := &model.RopeSpec{Dim: 8, Theta: 1e4, Scaling: model.RopeScaling{Kind: model.Yarn, Factor: 4, Original: 7, BetaFast: 2, BetaSlow: 2, Truncate: true}}
	for i, v := range yarn(s) {
		if v != v || v <= 0 {
			t.Errorf("frequency %d is %v", i, v)
		}
	}
}

// Cosines and sines are scaled, and pairs of either kind turn.
func TestRopeKinds(t *testing.T) {
	for _, kind := range []model.RopeKind{model.HalfSplit, model.Interleaved} {
		r, err := newRope(model.RopeSpec{Kind: kind, Dim: 4, Theta: 100, Scaling: model.RopeScaling{Attention: 2}}, 9)
		if err != nil {
			t.Fatal(err)
		}
		head := []float32{1, 0, 0, 0, 5}
		r.turn(head, 1, 5, &Row{Position: 3})
		sin, other := 2, 1
		if kind == model.Interleaved {
			sin, other = 1, 2
		}
		near := func(got float32, want float64) bool { return math.Abs(float64(got)-want) < 1e-6 }
		if !near(head[0], 2*math.Cos(3)) || !near(head[sin], 2*math.Sin(3)) || head[other] != 0 || head[4] != 5 {
			t.Errorf("kind %d: %v", kind, head)
		}
	}
}
