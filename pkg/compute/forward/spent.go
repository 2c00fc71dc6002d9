package forward

import "time"

// Part is what a step's goroutine does at a time.
type Part int

// The parts, together the whole step.
const (
	Embedding Part = iota
	// Attention with its norms, and the sums after it.
	Attention
	// Dense is the feed-forward block of layers without experts.
	Dense
	// Shared is the shared expert, computed while a layer's routed experts work.
	Shared
	// Waiting is sending rows to the routed experts, and the wait for them after
	// everything else is done.
	Waiting
	// Head is the final norm and the logits.
	Head
	// Sampling is what is done with the logits.
	Sampling
	Parts
)

var partNames = [Parts]string{"embedding", "attention", "dense", "shared", "waiting", "lm_head", "sampling"}

// PartNames returns all parts as metrics name them, in their order.
func PartNames() []string { return partNames[:] }

// Spent is the time of a step by part.
type Spent [Parts]time.Duration

// Clock takes the time of a step's parts; a nil one does nothing.
type Clock struct {
	Spent
	last time.Time
}

func (c *Clock) begin() {
	if c != nil {
		*c = Clock{last: time.Now()}
	}
}

// lap counts the time since the last call for a part.
func (c *Clock) lap(p Part) {
	if c == nil {
		return
	}
	now := time.Now()
	c.Spent[p] += now.Sub(c.last)
	c.last = now
}
