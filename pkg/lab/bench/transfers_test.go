package bench

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// A line through what was measured has what the fewest bytes take, and the rate beyond.
func TestLine(t *testing.T) {
	var points []point
	for _, bytes := range []float64{100, 1e4, 1e6} {
		points = append(points, point{bytes, 2e-5 + (bytes-100)/1e9})
	}
	if first, rate := line(points); math.Abs(first/2e-5-1) > 1e-9 || math.Abs(rate/1e9-1) > 1e-9 {
		t.Errorf("%v, %v", first, rate)
	}
}

// A mode is quicker from the fewest rows on beyond which it always is.
func TestBreakEvens(t *testing.T) {
	reading := func(rows int, direct, indirect, pipelined float64) TransferReading {
		r := TransferReading{Rows: rows}
		for _, m := range []Timed{{Mode: plan.TransferName(plan.Direct), Latency: direct}, {Mode: plan.TransferName(plan.Indirect), Latency: indirect}, {Mode: plan.TransferName(plan.Pipelined), Latency: pipelined}} {
			if m.Latency > 0 {
				r.Modes = append(r.Modes, m)
			}
		}
		return r
	}
	all := Transfers{Readings: []TransferReading{reading(1, 1, 2, 3), reading(4, 4, 3, 5), reading(16, 6, 7, 5), reading(64, 0, 9, 8)}}
	all.breakEvens()
	if all.IndirectFrom != 64 || all.PipelinedFrom != 16 || all.PipelinedFirst != 16 || all.DirectUpTo != 16 {
		t.Errorf("%+v", all.TransferCosts)
	}
}

// A formula is within 5 %, as near as two runs of the same are, or beyond; one whose constants are of the row
// is not judged.
func TestVerdicts(t *testing.T) {
	mode := func(off, apart float64) Timed {
		m := Timed{Mode: plan.TransferName(plan.Indirect), Error: off, Apart: apart}
		m.Verdict = m.verdict()
		return m
	}
	all := Transfers{Readings: []TransferReading{{Modes: []Timed{mode(-0.05, 0), mode(0.07, 0.08), {}}}, {Modes: []Timed{mode(-0.07, 0.06)}}}}
	if got, want := all.verdicts(), "formulas: 1 within 5 %, 1 as near as two runs of the same transfer, 1 beyond both; 1 are of their own constants\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
