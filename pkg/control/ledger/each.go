package ledger

import (
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Function is the time of one dispatch, as its host says it.
type Function struct {
	ID uint64 // the function's
	// Part is the first row of the group that it is of, and Rows are the routed rows that it had.
	Part, Rows                      int
	Queue, Stall, Compute, Transfer time.Duration
}

// Each appends the dispatches that a block tells of: of each group all of them, where Join keeps
// the critical one of the last. What cannot be is cut as Join does.
func Each(all []Function, total time.Duration, b *pb.Block, limit int) []Function {
	c := claims{total: max(0, total)}
	told := b.GetFunctions()
	for _, f := range told[:min(len(told), limit)] {
		is := c.function(f)
		all = append(all, Function{
			ID: f.GetFunction(), Part: int(b.GetKey().GetPart()), Rows: min(int(f.GetRows()), limit),
			Queue: is.by[ExpertQueue], Stall: is.by[ExpertStall], Compute: is.by[ExpertCompute], Transfer: is.by[ExpertTransfer],
		})
	}
	return all
}
