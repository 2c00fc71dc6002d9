package ledger

import (
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Join makes a layer's times of what its last block claims, of which nothing is
// believed that the time taken here contradicts. A claim that is longer than
// total is cut to it, of more functions than limit the rest is left out; cut is
// how often that was so.
func Join(total time.Duration, b *pb.Block, limit int) (l Layer, cut int) {
	c := claims{total: max(0, total)}
	functions := b.GetFunctions()
	if len(functions) > limit {
		functions = functions[:limit]
		c.cut++
	}
	l = Layer{Layer: int(b.GetKey().GetLayer()), Total: c.total, Functions: len(functions), Attempt: b.GetKey().GetAttempt()}
	var critical function
	quickest := time.Duration(0)
	for i, f := range functions {
		is := c.function(f)
		if i == 0 || is.took > critical.took {
			critical, l.Critical = is, f.GetFunction()
		}
		if i == 0 || is.took < quickest {
			quickest = is.took
		}
	}
	l.By = critical.by
	l.By[GateQueue], l.By[GateCompute] = c.bound(b.GetGate().GetQueueNs()), c.bound(b.GetGate().GetComputeNs())
	l.By[AggregatorWait] = max(0, c.bound(b.GetWaitNs())-(critical.took-quickest))
	l.fit()
	return l, c.cut
}

// claims are durations that others say within a layer's time.
type claims struct {
	total time.Duration
	cut   int
}

func (c *claims) bound(ns uint64) time.Duration {
	if ns <= uint64(c.total) {
		return time.Duration(ns)
	}
	c.cut++
	return c.total
}

// function is what a function says, by stage and altogether.
type function struct {
	by   [Stages]time.Duration
	took time.Duration
}

func (c *claims) function(f *pb.FunctionTime) (is function) {
	is.by[ExpertQueue], is.by[ExpertStall] = c.bound(f.GetQueueNs()), c.bound(f.GetStallNs())
	is.by[ExpertCompute], is.by[ExpertTransfer] = c.bound(f.GetComputeNs()), c.bound(f.GetTransferNs())
	for _, d := range is.by {
		is.took += d
	}
	return is
}

// fit makes the stages together the total: each gets what it claims of what
// those before it leave, and messages the rest.
func (l *Layer) fit() {
	left := l.Total
	for s := range Messages {
		l.By[s] = min(l.By[s], left)
		left -= l.By[s]
	}
	l.By[Messages] = left
}
