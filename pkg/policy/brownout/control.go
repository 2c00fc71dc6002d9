package brownout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Rule is algorithm 2's settings, for one phase. Times are in seconds.
type Rule struct {
	SLO       float64
	Warning   float64 // share of the SLO below which the threshold rises
	Shrink    float64 // what the threshold is multiplied with above the SLO
	Increment int     // millionths that it rises by
	Window    float64 // how old a latency may be
	Interval  float64 // between two changes, at least
	Share     float64 // of latencies that must keep the SLO
	Floor     int     // millionths: the threshold goes no lower
	// Calm is for how many seconds a threshold is remembered that was too high; 0: it is not, as printed.
	Calm float64
	// Cuts is for how many seconds after a change the threshold does not fall, at least; 0: Interval, as printed.
	Cuts float64
}

// Paper is the rule with the authors' numbers.
func Paper(slo float64) Rule {
	return Rule{SLO: slo, Warning: 0.8, Shrink: 0.8, Increment: One / 10, Window: 2, Interval: 5, Share: 0.9}
}

// Check says what is wrong with a rule.
func (r Rule) Check() error {
	switch {
	case !(r.SLO > 0) || math.IsInf(r.SLO, 0):
		return fmt.Errorf("%w: the SLO is %v s; it must be above 0", ErrSettings, r.SLO)
	case !(r.Warning > 0 && r.Warning < 1):
		return fmt.Errorf("%w: the warning factor is %v; it must be between 0 and 1", ErrSettings, r.Warning)
	case !(r.Shrink > 0 && r.Shrink < 1):
		return fmt.Errorf("%w: thresholds shrink by the factor %v; it must be between 0 and 1", ErrSettings, r.Shrink)
	case r.Increment < 1 || r.Increment > One:
		return fmt.Errorf("%w: thresholds rise by %d millionths; it must be 1 to %d", ErrSettings, r.Increment, One)
	case !(r.Window > 0) || !(r.Interval >= 0) || math.IsInf(r.Window+r.Interval, 0):
		return fmt.Errorf("%w: latencies of %v s decide every %v s; both must be numbers, the first above 0", ErrSettings, r.Window, r.Interval)
	case !(r.Share > 0 && r.Share <= 1):
		return fmt.Errorf("%w: a share of %v of the latencies must keep the SLO; it must be above 0, and 1 at most", ErrSettings, r.Share)
	case !(r.Calm >= 0 && r.Cuts >= 0) || math.IsInf(r.Calm+r.Cuts, 0):
		return fmt.Errorf("%w: a threshold that was too high is remembered for %v s, and the next one may fall after %v s; both must be numbers of at least 0", ErrSettings, r.Calm, r.Cuts)
	case r.Floor < 0 || r.Floor > One:
		return fmt.Errorf("%w: the floor is %d millionths; it must be 0 to %d", ErrSettings, r.Floor, One)
	}
	return nil
}

// Change is what a controller did, or why it did nothing.
type Change struct {
	Threshold int // millionths, from now on
	Moved     bool
	Latency   float64 // that it decided by; 0 is none
	Samples   int     // of latencies that counted
	Reason    string  // of a move
}

// Controller is algorithm 2 for one phase.
type Controller struct {
	rule      Rule
	threshold int
	changed   float64 // when the threshold last moved
	idle      float64 // since when there is nothing to learn from, or when it last rose for that
	samples   []sample
	sorted    []float64
	ignored   int
	rose      float64 // the latency by which the last move was a rise; 0: it was none
	high      tooHigh
}

type sample struct{ at, seconds float64 }

const (
	// mostSamples bounds the latencies that are kept.
	mostSamples = 1 << 16
	// absurd is a latency that no step has.
	absurd = 3600
)

// NewController starts at threshold 1, at a time.
func NewController(r Rule, now float64) (*Controller, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	return &Controller{rule: r, threshold: One, changed: math.Inf(-1), idle: now}, nil
}

// Threshold is in millionths.
func (c *Controller) Threshold() int { return c.threshold }

// Set has it go on from a threshold that something else has set, at a time.
func (c *Controller) Set(threshold int, now float64) {
	c.threshold = min(max(threshold, c.rule.Floor, 0), One)
	c.changed, c.rose, c.high = now, 0, tooHigh{}
}

// Bound changes how low the threshold may go.
func (c *Controller) Bound(floor int) {
	c.rule.Floor = min(max(floor, 0), One)
	c.threshold = max(c.threshold, c.rule.Floor)
}

// Ignored counts latencies that cannot be.
func (c *Controller) Ignored() int { return c.ignored }

// Observe hears that something took so many seconds, at a time.
func (c *Controller) Observe(at, seconds float64) {
	if !(seconds > 0 && seconds < absurd) || math.IsNaN(at) || len(c.samples) > 0 && at < c.samples[len(c.samples)-1].at {
		c.ignored++
		return
	}
	if len(c.samples) == mostSamples {
		c.samples = c.samples[:copy(c.samples, c.samples[mostSamples/2:])]
	}
	c.samples = append(c.samples, sample{at, seconds})
	c.idle = at
}

// Advance decides at a time. busy says that there is work, so that silence is no idleness.
func (c *Controller) Advance(now float64, busy bool) Change {
	c.forget(now)
	if busy {
		c.idle = max(c.idle, now-c.rule.Window/2) // what computes now has not been heard of yet
	}
	if len(c.samples) == 0 {
		return c.rest(now)
	}
	latency, n := c.recent()
	ch := Change{Threshold: c.threshold, Latency: latency, Samples: n}
	if n == 0 || now < c.changed+min(cmp.Or(c.rule.Cuts, c.rule.Interval), c.rule.Interval) {
		return ch
	}
	if c.high.below == 0 {
		c.high.below = latency
	}
	switch {
	case latency > c.rule.SLO:
		c.high = c.missed(now, latency)
		return c.move(now, int(float64(c.threshold)*c.rule.Shrink), ch, "above the SLO")
	case now < c.changed+c.rule.Interval || latency >= c.rule.Warning*c.rule.SLO || c.holds(now, latency):
	default:
		if ch = c.move(now, c.threshold+c.rule.Increment, ch, "below the warning line"); ch.Moved {
			c.rose = latency
		}
	}
	return ch
}

// rest lets the threshold rise by one increment for each window of idleness.
func (c *Controller) rest(now float64) Change {
	windows := int(min((now-c.idle)/c.rule.Window+1e-9, One))
	if windows < 1 {
		return Change{Threshold: c.threshold}
	}
	c.idle += float64(windows) * c.rule.Window
	c.rose = 0
	return c.move(now, c.threshold+windows*c.rule.Increment, Change{}, "nothing to do")
}

func (c *Controller) move(now float64, to int, ch Change, why string) Change {
	to = min(max(to, c.rule.Floor, 0), One)
	if to == c.threshold {
		ch.Threshold = to
		return ch
	}
	ch.Moved = true
	ch.Reason = fmt.Sprintf("%s: %.0f ms of %.0f, by %d samples; threshold %.3f to %.3f",
		why, 1e3*ch.Latency, 1e3*c.rule.SLO, ch.Samples, share(c.threshold), share(to))
	c.threshold, ch.Threshold, c.changed = to, to, now
	return ch
}

func share(millionths int) float64 { return float64(millionths) / One }

// forget drops latencies older than the window, and those of steps that began at an earlier threshold.
func (c *Controller) forget(now float64) {
	c.samples = slices.DeleteFunc(c.samples, func(s sample) bool { return s.at <= now-c.rule.Window || s.at-s.seconds <= c.changed })
}

// recent is the nearest-rank quantile of the latencies.
func (c *Controller) recent() (latency float64, n int) {
	c.sorted = c.sorted[:0]
	for _, s := range c.samples {
		c.sorted = append(c.sorted, s.seconds)
	}
	return NearestRank(c.sorted, c.rule.Share), len(c.sorted)
}

// NearestRank is the least of the numbers that a share of them does not exceed; 0 of none. It
// sorts them.
func NearestRank(numbers []float64, of float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	slices.Sort(numbers)
	return numbers[max(0, int(math.Ceil(of*float64(len(numbers))-1e-9))-1)]
}

const (
	// Calm keeps what the controller does under a constant load to a rise in two minutes.
	Calm = 120
	// tellsIn is within how many seconds a step that is done has been told of.
	tellsIn = 0.5
)

// Steady is algorithm 2 made steady. A threshold that was too high is remembered for two minutes: none is tried
// that it says is too high as well. And the threshold falls as soon as all that is judged is of steps behind the last change,
// and not every five seconds, so that three cuts take five seconds in place of ten.
func Steady(slo float64) Rule {
	r := Paper(slo)
	r.Calm, r.Cuts = Calm, r.Window+tellsIn
	return r
}

// tooHigh is a threshold at which steps missed the SLO.
type tooHigh struct {
	threshold int
	latency   float64 // of steps there
	until     float64 // when that is forgotten
	// below is the latency of lower thresholds: that by which the threshold rose to this one, if it did (rose), else
	// the first one behind the cut; 0: it is not known yet.
	below float64
	rose  bool
}

func (c *Controller) missed(now, latency float64) tooHigh {
	h := tooHigh{threshold: c.threshold, latency: latency, until: now + c.rule.Calm, below: c.rose, rose: c.rose > 0}
	c.rose = 0
	return h
}

// nearby is the share of a latency from which on another one is like it.
const nearby = 0.9

// holds reports whether the threshold does not rise although latencies are below the warning line: it had to be taken back
// from there, or would have to be, as it is the nearer to the one that was too high. It rises when latencies are a tenth lower
// than they were.
func (c *Controller) holds(now, latency float64) bool {
	h := &c.high
	if now >= h.until || c.threshold >= h.threshold {
		return false
	}
	if latency <= nearby*h.below {
		if !h.rose {
			*h = tooHigh{}
		}
		return false
	}
	part := float64(min(c.rule.Increment, h.threshold-c.threshold)) / float64(h.threshold-c.threshold)
	return h.rose || latency+part*(h.latency-latency) > c.rule.SLO
}
