package scaling

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
)

// measured are what a run's phases gave, by what was measured.
type measured map[string]map[string]float64

// whats are what is measured, in the order of the report: times in milliseconds.
var whats = []string{"tpot_ms", "tpot_ms_p99", "gap_ms_longest", "ttft_ms_p50", "layer_ms", "tokens_per_s", "memory_gb"}

// measure sums up a run.
func measure(all []answer, moments []moment) measured {
	m := measured{}
	for i, p := range phases {
		from, to := moments[i], moments[i+1]
		seconds := to.at.Sub(from.at).Seconds()
		rise := func(name string) float64 { return total(to.metrics, name) - total(from.metrics, name) }
		f := timesOf(all, i)
		f["tokens_per_s"] = tokensBetween(all, from.at, to.at) / seconds
		f["layer_ms"] = 1e3 * rise("switchyard_layer_hop_seconds_sum") / max(1, rise("switchyard_layer_hop_seconds_count"))
		f["memory_gb"] = rise("switchyard_expert_memory_gb_seconds_total") / seconds
		m[p.name] = f
	}
	return m
}

// timesOf are what a phase's answers took.
func timesOf(all []answer, phase int) map[string]float64 {
	var gaps, first []float64
	var sum, n float64
	for _, a := range all {
		if a.phase != phase || len(a.came) < 2 {
			continue
		}
		first = append(first, ms(a.came[0].Sub(a.sent)))
		sum += ms(a.came[len(a.came)-1].Sub(a.came[0])) / float64(len(a.came)-1)
		n++
		for i := range a.came[1:] {
			gaps = append(gaps, ms(a.came[i+1].Sub(a.came[i])))
		}
	}
	slices.Sort(gaps)
	slices.Sort(first)
	return map[string]float64{"tpot_ms": sum / max(1, n), "tpot_ms_p99": quantile.Of(gaps, 0.99), "gap_ms_longest": quantile.Of(gaps, 1), "ttft_ms_p50": quantile.Of(first, 0.5)}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// tokensBetween are the tokens that came in a time, of whatever phase's requests.
func tokensBetween(all []answer, from, to time.Time) (n float64) {
	for _, a := range all {
		for _, at := range a.came {
			if !at.Before(from) && at.Before(to) {
				n++
			}
		}
	}
	return n
}

// total is a metric's sum over all labels.
func total(metrics map[string]float64, name string) (sum float64) {
	for series, v := range metrics {
		if series == name || strings.HasPrefix(series, name+"{") {
			sum += v
		}
	}
	return sum
}

// table has, for each phase, what the second of the runs is of the first: the geometric mean of the
// pairs' ratios, and its interval.
func table(all [2][]measured) string {
	var b strings.Builder
	for _, p := range phases {
		fmt.Fprintf(&b, "%s (%v, %g requests a second)\n", p.name, p.length, p.rate)
		for _, what := range whats {
			var ratios, before, after []float64
			for i := range all[0] {
				x, y := all[0][i][p.name][what], all[1][i][p.name][what]
				before, after = append(before, x), append(after, y)
				ratios = append(ratios, math.Log(y/x))
			}
			r, half := quantile.Interval95(ratios)
			x, _ := quantile.Interval95(before)
			y, _ := quantile.Interval95(after)
			fmt.Fprintf(&b, "  %-14s %.2f (%.2f to %.2f): %.2f, before %.2f\n", what, math.Exp(r), math.Exp(r-half), math.Exp(r+half), y, x)
		}
	}
	return b.String()
}

// Two answers of a phase, 10 and 20 ms a token, and what metrics rose by.
func TestMeasure(t *testing.T) {
	begin := time.Unix(0, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	all := []answer{
		{0, at(0), []time.Time{at(30), at(40), at(50)}, nil},
		{0, at(0), []time.Time{at(50), at(70), at(90)}, nil},
	}
	var moments []moment
	for i := range len(phases) + 1 {
		moments = append(moments, moment{at(1000 * i), map[string]float64{
			`switchyard_layer_hop_seconds_sum{layer="0"}`: float64(i), `switchyard_layer_hop_seconds_sum{layer="1"}`: float64(3 * i),
			`switchyard_layer_hop_seconds_count{layer="0"}`: float64(1000 * i), `switchyard_expert_memory_gb_seconds_total{state="kept"}`: float64(7 * i),
		}})
	}
	got := measure(all, moments)[phases[0].name]
	want := map[string]float64{"tpot_ms": 15, "tpot_ms_p99": 20, "gap_ms_longest": 20, "ttft_ms_p50": 50, "layer_ms": 4, "tokens_per_s": 6, "memory_gb": 7}
	for what, v := range want {
		if math.Abs(got[what]-v) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got[what], v)
		}
	}
	twice := measured{}
	for _, p := range phases {
		twice[p.name] = map[string]float64{}
		for what, v := range want {
			twice[p.name][what] = 2 * v
		}
	}
	once := measured{}
	for _, p := range phases {
		once[p.name] = want
	}
	if text := table([2][]measured{{once, once}, {twice, twice}}); !strings.Contains(text, "tpot_ms        2.00 (2.00 to 2.00): 30.00, before 15.00") {
		t.Error(text)
	}
}
