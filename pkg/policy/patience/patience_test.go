package patience

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/internal/transcript"
)

// TestTranscripts replays what an estimator sees.
//
//	estimator factor= least= most=
//	seen LAYER ROWS gate= function= aggregator= messages= times=
//	late LAYER ROWS
//	usual LAYER ROWS
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(testing.TB) transcript.Machine {
		var e *Estimator
		return func(t testing.TB, v *transcript.Event) []string {
			if v.Name == "estimator" {
				e = New(Settings{
					Factor: v.Float(t, "factor", 4), Least: v.Duration(t, "least", 100*time.Millisecond).Seconds(), Most: v.Duration(t, "most", 10*time.Second).Seconds(),
				})
				return nil
			}
			return do(t, e, v)
		}
	})
}

func do(t testing.TB, e *Estimator, v *transcript.Event) []string {
	layer, rows := whole(t, v, 0), whole(t, v, 1)
	switch v.Name {
	case "seen":
		took := Times{}
		for stage, name := range []string{"gate", "function", "aggregator", "messages"} {
			took[stage] = v.Duration(t, name, 0).Seconds()
		}
		for range v.Int(t, "times", 1) {
			e.Observe(layer, rows, took)
		}
	case "late", "usual":
		of := map[string]func(layer, rows int) (float64, bool){"late": e.Late, "usual": e.Usual}[v.Name]
		seconds, known := of(layer, rows)
		if !known {
			return []string{"not known"}
		}
		return []string{fmt.Sprintf("after %.0f ms", 1e3*seconds)}
	default:
		v.Fatalf(t, "there is no such event")
	}
	return nil
}

func whole(t testing.TB, v *transcript.Event, at int) int {
	n, err := strconv.Atoi(v.Arg(t, at))
	if err != nil {
		v.Fatalf(t, "%v", err)
	}
	return n
}

// Nothing is late before the tail that was measured, and what is late is within
// the bounds.
func TestNeverBeforeTheTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{Factor: rapid.Float64Range(1, 8).Draw(t, "factor"), Least: 1e-3, Most: 5}
		e, g := New(s), rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		scale, rows := rapid.Float64Range(1e-5, 1).Draw(t, "scale"), rapid.IntRange(1, 5000).Draw(t, "rows")
		var all []float64
		for range rapid.IntRange(enough, 300).Draw(t, "n") {
			took, sum := Times{}, 0.0
			for stage := range took {
				took[stage] = scale * g.ExpFloat64()
				sum += took[stage]
			}
			e.Observe(2, rows, took)
			all = append(all, sum)
		}
		slices.Sort(all)
		late, known := e.Late(2, rows)
		if least := min(s.Factor*quantile.Of(all, 0.95), s.Most); !known || late < least || late > s.Most || late < s.Least {
			t.Fatalf("late after %v, known %v; 95 of 100 come within %v", late, known, least/s.Factor)
		}
	})
}

// Weights stay finite for ever.
func TestShrinks(t *testing.T) {
	e := New(Settings{Factor: 1, Least: 0, Most: 10})
	for range 100_000 {
		e.Observe(0, 1, Times{Messages: 0.1})
	}
	if late, _ := e.Late(0, 1); late < 0.1 || late > 0.15 {
		t.Errorf("%v", late)
	}
	if s := e.layers[0][0]; s.weight > maxWeight || s.sum > 1e3*maxWeight {
		t.Errorf("weight %v of %v", s.weight, s.sum)
	}
}

func TestClasses(t *testing.T) {
	for rows, want := range map[int]int{-1: 0, 0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 8192: 13, 1 << 30: 13} {
		if got := classOf(rows); got != want {
			t.Errorf("%d rows: class %d, want %d", rows, got, want)
		}
	}
}

// At most the share of groups is sent again, and a few more.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBudget(rapid.Float64Range(0, 0.2).Draw(t, "share"), rapid.Float64Range(0, 20).Draw(t, "most"))
		groups, spent := 0, 0
		for _, group := range rapid.SliceOfN(rapid.Bool(), 0, 500).Draw(t, "groups") {
			if group {
				b.Earn()
				groups++
			} else if b.Spend() {
				spent++
			}
		}
		if most := b.Most + b.Share*float64(groups); float64(spent) > most+1e-6 {
			t.Fatalf("%d of %d groups were sent again, want at most %v", spent, groups, most)
		}
	})
	full := NewBudget(0.1, 2)
	for i, want := range []bool{true, true, false} {
		if got := full.Spend(); got != want {
			t.Errorf("re-issue %d of a budget of two: %v", i, got)
		}
	}
}
