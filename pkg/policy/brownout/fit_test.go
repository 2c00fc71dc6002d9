package brownout

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Costs by which steps of many kinds took what they did are found again; none is below 0.
func TestFitFindsCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Costs{
			Fixed: rapid.Float64Range(0, 0.05).Draw(t, "fixed"), Row: rapid.Float64Range(0, 1e-3).Draw(t, "row"), Access: rapid.Float64Range(1e-5, 1e-3).Draw(t, "access"),
		}
		var samples []Sample
		for rows := 1; rows <= 64; rows *= 2 {
			for _, share := range []float64{0.25, 0.5, 1} {
				accesses := math.Ceil(share * 128 * (1 - math.Pow(0.9, float64(rows))))
				samples = append(samples, Sample{rows, accesses, want.Seconds(rows, accesses)})
			}
		}
		samples = append(samples, Sample{0, 1, 1}, Sample{1, 0, 1}, Sample{1, 1, math.NaN()}, Sample{1, 1, 1e9}) // cannot be
		got := Fit(samples)
		if got.Fixed < 0 || got.Row < 0 || got.Access < 0 {
			t.Fatalf("%+v", got)
		}
		for _, s := range samples[:len(samples)-4] {
			if off := math.Abs(got.Seconds(s.Rows, s.Accesses)/s.Seconds - 1); off > 0.05 {
				t.Fatalf("%+v for %+v: %v of a step of %v s with %v accesses is off", got, want, off, s.Seconds, s.Accesses)
			}
		}
	})
}

// What a constant load leaves open is put down to accesses; without samples there are no costs.
func TestFitOfConstantLoad(t *testing.T) {
	var samples []Sample
	for range 50 {
		samples = append(samples, Sample{32, 100, 0.2})
	}
	got := Fit(samples)
	if moe := got.Access * 100; math.Abs(got.Seconds(32, 100)-0.2) > 1e-3 || moe < 0.19 {
		t.Errorf("%+v", got)
	}
	if got := Fit(nil); got != (Costs{}) {
		t.Errorf("%+v of nothing", got)
	}
}

// A curve of more rows rises, to all experts at most.
func TestGrown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Curve(rapid.SliceOfN(rapid.Float64Range(0, 64), 3, 11).Draw(t, "accesses"))
		factor := rapid.Float64Range(0, 50).Draw(t, "factor")
		got := c.Grown(factor, 64)
		for i := range c {
			if got[i] < c[i]-1e-9 || got[i] > 64 || factor <= 1 && got[i] != c[i] {
				t.Fatalf("%v of %v at a factor of %v", got[i], c[i], factor)
			}
		}
	})
	if got := (Curve{8}).Grown(2, 16)[0]; got != 12 {
		t.Errorf("twice the rows of a half access %v of 16, want 12", got)
	}
}

// A prediction goes by what the newest samples took.
func TestRefit(t *testing.T) {
	p, err := NewPredictive(AheadOf(0.15), Costs{})
	if err != nil {
		t.Fatal(err)
	}
	var samples []Sample
	for range 100 {
		samples = append(samples, Sample{8, 100, 0.2})
	}
	p.Refit(Fit(samples), samples)
	curve := Curve{20, 40, 60, 80, 100}
	ch := p.Advance(1, Demand{Steps: 1, Rows: 8, Curve: curve})
	if ch.Threshold != One/2 || math.Abs(ch.Latency-0.2) > 0.01 {
		t.Errorf("%+v: 100 accesses take 0.2 s, and 0.138 are wanted", ch)
	}
	p.Bound(600_000)
	if p.Threshold() != 600_000 || p.Advance(2, Demand{Steps: 1, Rows: 8, Curve: curve}).Threshold != 600_000 {
		t.Errorf("%d below its floor", p.Threshold())
	}
	if p.Set(One); p.Threshold() != One {
		t.Errorf("%d, and set to 1", p.Threshold())
	}
}
