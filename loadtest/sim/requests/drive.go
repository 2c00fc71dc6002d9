package requests

import (
	"errors"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
)

// Batch is what an engine of its own computes.
type Batch struct {
	Began         float64
	Rows, Prompts int      // rows, and those of them that are of prompts
	Tokens        int      // of all sequences that have a seat, with those of this batch
	Loads         []uint32 // by layer and expert; the callee's until it returns
}

// Drive is Run on another engine than package sim's, which says when a batch ends. Its result has
// what requests had, and when the run ended.
func Drive(rs []trace.Request, t *Tape, set Settings, compute func(Batch) (end float64)) (*Result, error) {
	if err := set.Check(); err != nil {
		return nil, err
	}
	y := newSource(set, t, rs, nil)
	if len(y.requests) == 0 {
		return nil, errors.New("no request arrives; take a longer slice of the trace")
	}
	for now := 0.0; ; {
		it, ok := y.Next(now)
		if !ok {
			return y.result(&sim.Result{Elapsed: y.ended}), nil
		}
		b := Batch{Began: it.Due, Rows: it.Rows, Prompts: y.batch.prompts, Loads: y.loads}
		for _, r := range y.order {
			b.Tokens += r.done + r.flying
		}
		now = compute(b)
	}
}
