package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// A line through what was measured has what no bytes take, and a rate.
func TestLine(t *testing.T) {
	var points []point
	for _, bytes := range []float64{100, 1e4, 1e6} {
		points = append(points, point{x: bytes, seconds: 2e-5 + bytes/1e9, by: 1})
	}
	if first, rate := line(points); math.Abs(first/2e-5-1) > 1e-6 || math.Abs(rate/1e9-1) > 1e-6 {
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
	for _, tc := range []struct {
		off, apart float64
		judged     bool
		want       string
	}{
		{-0.049, 0, true, near}, {0.07, 0.08, true, likeRuns}, {-0.07, 0.06, true, beyond}, {0.5, 0, false, ""},
	} {
		m := Timed{Seconds: 2, Apart: tc.apart}
		if got := m.said(2*(1+tc.off), tc.judged); got.Verdict != tc.want || math.Abs(got.Error-tc.off) > 1e-9 {
			t.Errorf("%v: %+v", tc, got)
		}
	}
	all := Transfers{Readings: []TransferReading{{Modes: []Timed{{Model: Said{Verdict: near}}, {Model: Said{Verdict: beyond}}, {}}}}}
	if got, want := all.verdicts(), "formulas with a server's reads: 1 within 5 %, 0 as near as two runs of the same transfer, 1 beyond both; 1 are of their own constants\n"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Constants are found again from what formulas with them say, by every other reading; the others are then as said. Printed formulas are
// off where these are not theirs.
func TestFit(t *testing.T) {
	w := Ways{Message: 20e-6, MessageGrow: 3e-6, MessageWait: 50e-6, MessageBytes: 6e8, Access: 30e-6, Grow: 6e-6, StoreBytes: 5e8, Pipeline: 12e-6}
	all := Transfers{TransferCosts: TransferCosts{RowBytes: 512}}
	for i, rows := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384} {
		r := TransferReading{Rows: rows, Bytes: 512 * rows}
		for _, of := range []way{{plan.Direct, 0}, {plan.Indirect, 0}, {plan.Pipelined, max(1, rows>>(i/4))}} {
			m := Timed{Mode: plan.TransferName(of.mode), Minibatch: of.minibatch, Compute: float64(rows) * 2e-6}
			m.Seconds = w.says(&m, rows, 512, m.Compute)
			r.Modes = append(r.Modes, m)
		}
		all.Readings = append(all.Readings, r)
	}
	all.fit()
	all.judge()
	judged, off := 0, 0.0
	for _, r := range all.Readings {
		for _, m := range r.Modes {
			if math.Abs(m.Model.Error) > 0.001 || (m.Model.Verdict == "") != r.Fits {
				t.Errorf("%d rows, %s: %+v", r.Rows, m.Mode, m)
			}
			if m.Model.Verdict != "" {
				judged++
			}
			off = max(off, math.Abs(m.Line.Error))
		}
	}
	if g := all.Ways; judged != 21 || math.Abs(g.MessageWait/w.MessageWait-1) > 0.01 || math.Abs(g.Grow/w.Grow-1) > 0.01 || math.Abs(g.Access/w.Access-1) > 0.01 || all.Printed.Grow != 0 || off < 0.05 {
		t.Errorf("%d judged, printed formulas are off by up to %v, %+v", judged, off, all.TransferCosts)
	}
}

// What would be below 0 is 0, and the rest is the best without it.
func TestLeastSquares(t *testing.T) {
	points := []point{{x: 1, seconds: 2, by: 1}, {x: 2, seconds: 1, by: 1}}
	if got := leastSquares(points, func(p point) []float64 { return []float64{1, p.x} }); math.Abs(got[0]-1.5) > 1e-9 || got[1] != 0 {
		t.Errorf("%v", got)
	}
	if got := leastSquares(nil, func(point) []float64 { return []float64{1} }); got[0] != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// Of few readings only what is printed is told.
func TestFitOfFew(t *testing.T) {
	all := Transfers{TransferCosts: TransferCosts{RowBytes: 512, Itself: Ways{Access: 1, StoreBytes: 1, MessageBytes: 1}}}
	for _, rows := range []int{1, 4, 16, 64, 256} {
		r := TransferReading{Rows: rows, Bytes: 512 * rows}
		for _, mode := range []string{plan.TransferName(plan.Direct), plan.TransferName(plan.Indirect)} {
			r.Modes = append(r.Modes, Timed{Mode: mode, Seconds: 1e-5 * float64(1+rows)})
		}
		all.Readings = append(all.Readings, r)
	}
	if all.fit(); all.Ways != all.Printed || all.Grow != 0 || !(all.Message > 0) {
		t.Errorf("%+v", all.TransferCosts)
	}
	all.Readings = all.Readings[:2]
	if all.fit(); all.Ways != all.Itself {
		t.Errorf("of one: %+v", all.TransferCosts)
	}
}
