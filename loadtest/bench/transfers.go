package bench

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TransferSettings say what of transfers is measured.
type TransferSettings struct {
	Model *model.Model
	Pool  *pool.Pool
	Wire  tensor.Wire
	Hops  schemas.Hops
	// Rows are those of one expert, of one dispatch.
	Rows []int
	// Rounds are the turns of which a median is taken.
	Rounds   int
	Progress func(format string, args ...any)
}

// mostMinibatches is how many minibatches rows are cut into at most.
const mostMinibatches = 64

// Timed is a transfer mode with so many rows: a host's time with them, that of them which it computed,
// and the whole way's, medians of all turns; what formulas say of the host's; and how far apart two
// runs of the same are.
type Timed struct {
	Mode    string  `json:"mode"`
	Seconds float64 `json:"host_seconds"`
	Compute float64 `json:"compute_seconds"`
	Latency float64 `json:"latency_seconds"`
	// Model is the formula with what was computed in the same turns, and Line the one that is printed. Each has the
	// constants of other readings.
	Model Said    `json:"model"`
	Line  Said    `json:"model_printed"`
	Apart float64 `json:"runs_apart"`
	// Minibatch is the rows of one; 0: they go at once.
	Minibatch int `json:"minibatch,omitempty"`
}

// Said is what a formula says, how far off it is, and its verdict: within 5 %, as near as two runs are to each other, or
// beyond both; empty where its constants are of this row.
type Said struct {
	Seconds float64 `json:"seconds"`
	Error   float64 `json:"error"`
	Verdict string  `json:"verdict,omitempty"`
}

// Verdicts of formulas, and how near one is to be.
const (
	near       = "within 5 %"
	likeRuns   = "as near as two runs"
	beyond     = "beyond"
	nearEnough = 0.05
)

// said compares what a formula says with what was measured.
func (t *Timed) said(seconds float64, judged bool) Said {
	s := Said{Seconds: seconds, Error: seconds/t.Seconds - 1}
	if !judged {
		return s
	}
	switch off := math.Abs(s.Error); {
	case off <= nearEnough:
		s.Verdict = near
	case off <= t.Apart:
		s.Verdict = likeRuns
	default:
		s.Verdict = beyond
	}
	return s
}

// TransferReading is what so many rows of an expert take, by mode. A mode that cannot is missing.
type TransferReading struct {
	Rows    int     `json:"rows"`
	Bytes   int     `json:"bytes"`
	Compute float64 `json:"compute_seconds"`
	Modes   []Timed `json:"modes"`
	// Best is the number of minibatches with the least time of the host, and Formula sqrt(r·D_out/(B_s·T_dl)).
	Best    int     `json:"best_minibatches"`
	Formula float64 `json:"formula_minibatches"`
	// Fits says that constants are of these turns, so that formulas are judged by the other readings.
	Fits bool `json:"fits"`
}

// TransferCosts are the constants, of transfers and of the store and of messages by themselves, and
// from how many rows on which mode is quicker.
type TransferCosts struct {
	Ways
	Printed        Ways    `json:"printed"`
	Itself         Ways    `json:"by_themselves"`
	Put            float64 `json:"store_put_seconds"`                // of no bytes
	Get            float64 `json:"store_get_seconds"`                // of no bytes
	RowBytes       int     `json:"row_bytes"`                        // D_in and D_out
	IndirectFrom   int     `json:"indirect_below_direct_from_rows"`  // 0: nowhere
	PipelinedFrom  int     `json:"pipelined_below_direct_from_rows"` // 0: nowhere
	PipelinedFirst int     `json:"pipelined_below_indirect_from_rows"`
	DirectUpTo     int     `json:"direct_up_to_rows"`
}

// Transfers are all readings.
type Transfers struct {
	TransferCosts
	Model    string            `json:"model"`
	Readings []TransferReading `json:"readings"`
}

// MeasureTransfers moves rows of one expert over a NATS server of its own in every mode.
func MeasureTransfers(ctx context.Context, s TransferSettings) (*Transfers, error) {
	s.Rows = slices.Compact(slices.Sorted(slices.Values(s.Rows)))
	y, err := openYard(ctx, s)
	if err != nil {
		return nil, err
	}
	defer y.close()
	s.Progress("measuring the store and messages…")
	out := &Transfers{Model: s.Model.Name}
	if out.TransferCosts, err = y.costs(ctx); err != nil {
		return nil, err
	}
	if err := y.readings(ctx, out); err != nil {
		return nil, err
	}
	out.fit()
	out.judge()
	out.breakEvens()
	return out, nil
}

// way is a mode with the rows of its minibatches.
type way struct {
	mode      pb.TransferMode
	minibatch int
}

// timed is the medians of turns, those of the first and the second half being two runs.
func timed(w way, turns []carriage) Timed {
	of := func(turns []carriage, what func(carriage) float64) float64 {
		all := make([]float64, len(turns))
		for i, t := range turns {
			all[i] = what(t)
		}
		return median(all)
	}
	host := func(t carriage) float64 { return t.host.Seconds() }
	t := Timed{
		Mode: plan.TransferName(w.mode), Minibatch: w.minibatch,
		Seconds: of(turns, host), Compute: of(turns, func(t carriage) float64 { return t.compute.Seconds() }), Latency: of(turns, func(t carriage) float64 { return t.whole.Seconds() }),
	}
	half := len(turns) / 2
	t.Apart = math.Abs(of(turns[:half], host)/of(turns[half:], host) - 1)
	return t
}

func parts(rows, minibatch int) int { return (rows + minibatch - 1) / minibatch }

// breakEvens finds from how many rows on one mode is quicker than another, as measured.
func (t *Transfers) breakEvens() {
	latency := func(r TransferReading, mode pb.TransferMode) float64 {
		for _, m := range r.Modes {
			if m.Mode == plan.TransferName(mode) {
				return m.Latency
			}
		}
		return math.Inf(1)
	}
	from := func(a, b pb.TransferMode) (rows int) {
		for _, r := range slices.Backward(t.Readings) {
			if latency(r, a) >= latency(r, b) {
				return rows
			}
			rows = r.Rows
		}
		return rows
	}
	t.IndirectFrom, t.PipelinedFrom, t.PipelinedFirst = from(plan.Indirect, plan.Direct), from(plan.Pipelined, plan.Direct), from(plan.Pipelined, plan.Indirect)
	for _, r := range t.Readings {
		if !math.IsInf(latency(r, plan.Direct), 1) {
			t.DirectUpTo = r.Rows
		}
	}
}

// carriage is one transfer: the host's time, what it computed of that, and the time from a gate's
// beginning to an aggregator's end.
type carriage struct{ host, compute, whole time.Duration }
