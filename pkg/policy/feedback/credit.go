package feedback

// credit is the part of what was expected of changes that came of them, in the mean: those
// measured best count most, and the newest ones.
type credit struct{ weight, sum float64 }

// noCredit is the credit before the first trial: all that is expected comes, with doubt as the
// standard deviation.
var noCredit = credit{weight: 1 / (doubt * doubt), sum: 1 / (doubt * doubt)}

const (
	// creditKeep is what a trial still weighs after another one.
	creditKeep = 0.9
	// creditLeast is the part of what is expected that has to come for it to be trusted.
	creditLeast = 0.25
)

func (c *credit) add(o *Outcome) {
	if !(o.Expected > 0) || !(o.Error > 0) || o.Verdict == NoEffect {
		return
	}
	c.weight = noCredit.weight + creditKeep*(c.weight-noCredit.weight)
	c.sum = noCredit.sum + creditKeep*(c.sum-noCredit.sum)
	w := squared(o.Expected / max(o.Error, leastError))
	c.weight += w
	c.sum += w * min(max(o.Came/o.Expected, -1), 2)
}

func (c *credit) enough() bool { return c.sum >= creditLeast*c.weight }
