package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// visit is a mode with so many rows, which is gone back to in every round, and what its turns have taken.
type visit struct {
	way
	rows, reading int
	turns         []carriage
}

// Each round has a visit of every mode and number of rows. The first turn of a visit does not count: it brings the server's buffers, caches
// and the heap to where turns like it leave them. The others take so long together, and are no more than so many.
const (
	visitFor  = 4 * time.Millisecond
	mostTurns = 20
)

// readings measures every mode with all rows. Rounds mix what is visited, each in an order of its own, so that what the machine does
// meanwhile hits all of them alike.
func (y *yard) readings(ctx context.Context, out *Transfers) error {
	visits, err := y.visits(ctx, out)
	if err != nil {
		return err
	}
	state := splitmix.Mix(1)
	for round := range 2 * y.s.Rounds {
		y.s.Progress("moving rows, round %d of %d…", round+1, 2*y.s.Rounds)
		for i := len(visits) - 1; i > 0; i-- {
			j := int(splitmix.Next(&state) % uint64(i+1))
			visits[i], visits[j] = visits[j], visits[i]
		}
		for _, v := range visits {
			if err := y.pay(ctx, v); err != nil {
				return fmt.Errorf("%d rows, %s: %w", v.rows, plan.TransferName(v.mode), err)
			}
		}
	}
	slices.SortFunc(visits, func(a, b *visit) int { return cmp.Or(cmp.Compare(a.rows, b.rows), -cmp.Compare(a.mode, b.mode)) })
	for _, v := range visits {
		r := &out.Readings[v.reading]
		r.Modes = append(r.Modes, timed(v.way, v.turns))
	}
	return nil
}

// pay is one visit.
func (y *yard) pay(ctx context.Context, v *visit) error {
	began := time.Now()
	for turn := 0; turn < 2 || turn <= mostTurns && time.Since(began) < visitFor; turn++ {
		t, err := y.move(ctx, v.way, v.rows, nil)
		if err != nil {
			return err
		}
		if turn == 0 {
			began = time.Now()
			continue
		}
		v.turns = append(v.turns, t)
	}
	return nil
}

// visits are all that there are, with readings for what they will have taken.
func (y *yard) visits(ctx context.Context, out *Transfers) (all []*visit, err error) {
	for i, rows := range y.s.Rows {
		y.s.Progress("looking for the best minibatches of %d rows…", rows)
		r := TransferReading{Rows: rows, Bytes: rows * out.RowBytes}
		if r.Compute, err = y.computes(ctx, rows); err != nil {
			return nil, err
		}
		best, err := y.best(ctx, rows)
		if err != nil {
			return nil, err
		}
		r.Best = parts(rows, best.minibatch)
		out.Readings = append(out.Readings, r)
		for _, w := range []way{{plan.Direct, 0}, {plan.Indirect, 0}, best} {
			if w.mode != plan.Direct || y.fits(rows) {
				all = append(all, &visit{way: w, rows: rows, reading: i})
			}
		}
	}
	return all, nil
}

// best is the pipelined way with the least time of the host.
func (y *yard) best(ctx context.Context, rows int) (best way, err error) {
	var all []*visit
	for n := 1; n <= min(rows, mostMinibatches); n *= 2 {
		all = append(all, &visit{way: way{plan.Pipelined, (rows + n - 1) / n}, rows: rows})
	}
	for range y.s.Rounds {
		for _, v := range all {
			if err := y.pay(ctx, v); err != nil {
				return best, err
			}
		}
	}
	least := math.Inf(1)
	for _, v := range all {
		if t := timed(v.way, v.turns); t.Seconds < least {
			best, least = v.way, t.Seconds
		}
	}
	return best, nil
}
