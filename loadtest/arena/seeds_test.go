package arena

import (
	"math"
	"strings"
	"testing"
)

// Each policy is run with each seed, the first is the one that is asked for, and changes
// are paired by seed.
func TestSeeds(t *testing.T) {
	s := small()
	s.Variants, s.Seeds, s.Short = false, 3, s.Slice
	r := compare(t, s)
	for _, policy := range r.suite.names() {
		lines := r.bySeed("mixtral-8x7b", policy)
		if len(lines) != 3 || lines[0].Value != 1 || lines[2].Value != 3 {
			t.Fatalf("%s has %d lines", policy, len(lines))
		}
		if whole := find(r.Lines, partMain, "mixtral-8x7b", routingFitted, policy); whole.Mean != lines[0].Mean {
			t.Errorf("%s takes %v with the first seed, and %v elsewhere", policy, lines[0].Mean, whole.Mean)
		}
	}
	if want := len(r.suite.Baselines) * (len(r.suite.names()) - 1) * len(r.suite.Measures); len(r.Intervals) != want {
		t.Errorf("%d intervals, want %d", len(r.Intervals), want)
	}
	for _, i := range r.Intervals {
		if !(i.Low <= i.Change && i.Change <= i.High) || i.Seeds != 3 {
			t.Errorf("%+v", i)
		}
		if i.Policy == "oracle" && i.Against == "static" && i.What == "cost as resident" && math.Abs(i.Change) > 0.01 {
			t.Errorf("static and the oracle hold the same memory: %+v", i)
		}
	}
}

func TestBadSeeds(t *testing.T) {
	for _, n := range []int{-1, 1, MostSeeds + 1} {
		s := small()
		s.Seeds = n
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), "seeds are asked for") {
			t.Errorf("%d: %v", n, err)
		}
	}
}
