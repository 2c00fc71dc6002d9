package batching

// Pace is what microbatches have taken lately: how long a row takes in the
// layers, and how long its logits take, which for a large vocabulary is longer.
// The zero value knows nothing yet.
type Pace struct {
	layers, logits cost
	beside         beside
	// Seconds is what a step of so many rows of answers alone takes, 0 if it is not known; nil: it
	// never is.
	Seconds func(rows int) float64
}

// alone is what a step of so many rows of answers alone takes; 0: nobody knows.
func (p *Pace) alone(rows int) float64 {
	if p.Seconds == nil {
		return 0
	}
	return p.Seconds(rows)
}

// Observe takes in what a microbatch with prefill took: its rows in the layers,
// and those of them whose logits were made.
func (p *Pace) Observe(rows int, layerSeconds float64, withLogits int, logitSeconds float64) {
	p.layers.observe(rows, layerSeconds)
	p.logits.observe(withLogits, logitSeconds)
}

// What a row takes as long as nothing was seen: rather too much, so that the
// first microbatch finds out without taking long.
const (
	unseenRow    = 0.004
	unseenLogits = 0.040
)

// budget is the time that is left of a microbatch.
type budget struct {
	seconds     float64
	row, logits float64 // what another row takes, and its logits
	unbounded   bool
}

// budget is what maxSeconds leave beside decode rows.
func (p *Pace) budget(maxSeconds float64, decode int) budget {
	b := budget{seconds: maxSeconds, row: p.layers.each(unseenRow), logits: p.logits.each(unseenLogits), unbounded: maxSeconds == 0}
	b.seconds -= float64(decode) * (b.row + b.logits)
	return b
}

// rows is how many of an item's rows there is time for.
func (b *budget) rows(it Item) int {
	plain := it.Prefill - it.Scored
	switch {
	case b.unbounded || b.cost(it, it.Prefill) <= b.seconds:
		return it.Prefill
	case b.seconds <= 0:
		return 0
	case float64(plain)*b.row >= b.seconds:
		return int(b.seconds / b.row)
	}
	return plain + int((b.seconds-float64(plain)*b.row)/(b.row+b.logits))
}

// cost is what the first n rows of an item take.
func (b *budget) cost(it Item, n int) float64 {
	return float64(n)*b.row + float64(max(0, n-(it.Prefill-it.Scored)))*b.logits
}

func (b *budget) take(it Item, n int) { b.seconds -= b.cost(it, n) }

// cost is what one takes of those that were seen lately. What does not grow
// with their number counts too, so it is too much for few, and comes down while
// microbatches grow towards their bound.
type cost struct {
	n, seconds float64 // sums in which each observation weighs less than the one after it
}

// keep is the share of its weight that an observation keeps with each later one.
const keep = 0.5

func (c *cost) observe(n int, seconds float64) {
	if n > 0 {
		c.n, c.seconds = keep*c.n+float64(n), keep*c.seconds+seconds
	}
}

func (c *cost) each(unseen float64) float64 {
	if c.n == 0 {
		return unseen
	}
	return c.seconds / c.n
}
