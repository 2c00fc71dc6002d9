package brownout

import (
	"errors"
	"fmt"
	"math"
)

// Costs are what a step takes, in seconds: fitted to a device, or from its data sheet.
type Costs struct {
	Fixed  float64 // of a step
	Row    float64 // of each row
	Access float64 // of each access of an expert, over all layers
}

// Seconds is what a step with so many rows and accesses takes.
func (c Costs) Seconds(rows int, accesses float64) float64 {
	return c.Fixed + c.Row*float64(rows) + c.Access*accesses
}

// Curve is the accesses of a step at the thresholds 0, 1/n, 2/n, …, 1, where n+1 is its length.
type Curve []float64

// Curve adds a layer's accesses to those of a step.
func (p *Splitter) Curve(s Settings, r Rows, onto Curve) error {
	for i := range onto {
		s.Threshold = onto.threshold(i)
		d, err := p.Split(s, r)
		if err != nil {
			return err
		}
		onto[i] += float64(d.After)
	}
	return nil
}

func (c Curve) threshold(i int) int { return PointOf(i, len(c)) }

// PointOf is the threshold of one of so many points, from 0 to 1.
func PointOf(i, of int) int {
	if of == 1 {
		return One
	}
	return i * One / (of - 1)
}

// At is the accesses at the next point that is no lower than a threshold.
func (c Curve) At(threshold int) float64 {
	if len(c) == 0 {
		return 0
	}
	threshold = min(max(threshold, 0), One)
	return c[(threshold*(len(c)-1)+One-1)/One]
}

// Grown is the curve of a step with more rows by a factor, which choose as its rows do, where so many
// experts can be accessed at most.
func (c Curve) Grown(factor, most float64) Curve {
	if !(factor > 1) || !(most > 0) {
		return c
	}
	out := make(Curve, len(c))
	for i, accesses := range c {
		out[i] = most * (1 - math.Pow(1-min(accesses/most, 1), factor))
	}
	return out
}

// Demand is what a phase has before it.
type Demand struct {
	Waited float64 // seconds that the oldest of it has waited already
	Steps  float64 // until that is done
	Rows   int     // of each of those steps
	Curve  Curve   // and their accesses
}

// Ahead is the settings of Predictive.
type Ahead struct {
	SLO    float64 // seconds
	Share  float64 // of steps for which the prediction must suffice
	Margin float64 // share of the SLO that a new threshold is chosen for
	Hold   float64 // seconds for which a higher threshold must have been enough before it is taken
	Band   int     // millionths: a rise is no smaller
	Floor  int     // millionths
	// Calm is for how many seconds no rise is tried after one that had to be taken back, while there
	// is something to do: accesses do not say well what steps take.
	Calm float64
}

// AheadOf are settings that settle: the threshold falls at once, and rises when it would have
// been enough to be higher for ten seconds.
func AheadOf(slo float64) Ahead {
	return Ahead{SLO: slo, Share: 0.9, Margin: 0.92, Hold: 10, Band: One / 10}
}

// Check says what is wrong with the settings.
func (a Ahead) Check() error {
	r := Paper(a.SLO)
	r.Share, r.Floor, r.Warning, r.Interval, r.Calm = a.Share, a.Floor, a.Margin, a.Hold, a.Calm
	if err := r.Check(); err != nil {
		return err
	}
	if a.Band < 0 || a.Band > One {
		return fmt.Errorf("%w: a rise of the threshold is at least %d millionths; it must be 0 to %d", ErrSettings, a.Band, One)
	}
	return nil
}

// Predictive takes the largest threshold at which the work before it keeps the SLO. How far its
// costs are wrong it learns from each step.
type Predictive struct {
	set       Ahead
	costs     Costs
	threshold int
	ratios    []float64 // of what the last steps took to what was predicted
	next      int       // which of them is replaced
	sorted    []float64
	wanted    []wanted // of the last Hold seconds
	since     *float64 // when the first was; nil before
	rose      bool     // the last move was a rise
	calm      float64  // until when none is tried
}

type wanted struct {
	at        float64
	threshold int
}

// steps is how many ratios are kept.
const steps = 64

// NewPredictive starts at threshold 1.
func NewPredictive(a Ahead, c Costs) (*Predictive, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if !(c.Fixed >= 0 && c.Row >= 0 && c.Access >= 0) || math.IsInf(c.Fixed+c.Row+c.Access, 0) {
		return nil, fmt.Errorf("%w: a step costs %+v; costs are numbers of at least 0", ErrSettings, c)
	}
	return &Predictive{set: a, costs: c, threshold: One}, nil
}

// Threshold is in millionths.
func (p *Predictive) Threshold() int { return p.threshold }

// Set has it go on from a threshold that something else has set.
func (p *Predictive) Set(threshold int) {
	p.threshold, p.wanted, p.since = min(max(threshold, p.set.Floor, 0), One), nil, nil
	p.rose, p.calm = false, 0
}

// Bound changes how low the threshold may go.
func (p *Predictive) Bound(floor int) {
	p.set.Floor = min(max(floor, 0), One)
	p.threshold = max(p.threshold, p.set.Floor)
}

// Refit has it predict by costs that were fitted to samples, the newest of which, the last ones, say how
// far the costs are wrong.
func (p *Predictive) Refit(c Costs, samples []Sample) {
	p.costs, p.ratios, p.next = c, p.ratios[:0], 0
	for _, s := range samples[max(0, len(samples)-steps):] {
		p.Observe(s.Rows, s.Accesses, s.Seconds)
	}
}

// Observe hears what a step took; what cannot be does not count.
func (p *Predictive) Observe(rows int, accesses, seconds float64) {
	want := p.costs.Seconds(rows, accesses)
	if !(seconds > 0 && seconds < absurd && want > 0) {
		return
	}
	if len(p.ratios) < steps {
		p.ratios = append(p.ratios, seconds/want)
		return
	}
	p.ratios[p.next] = seconds / want
	p.next = (p.next + 1) % steps
}

// Advance decides at a time, by all that waits. Without any the threshold is on its way to 1.
func (p *Predictive) Advance(now float64, demand ...Demand) Change {
	most, latency := One, 0.0
	scale := p.scale()
	for _, d := range demand {
		most = min(most, p.largest(d, scale))
		latency = max(latency, p.predict(d, d.Curve.At(p.threshold), scale))
	}
	held, to := p.remember(now, most), p.threshold
	switch calm := len(demand) > 0 && now < p.calm; {
	case latency > p.set.SLO:
		to = min(to, most)
	case !calm && (held >= to+p.set.Band || held == One):
		to = max(to, held)
	}
	to = max(to, p.set.Floor)
	ch := Change{Threshold: to, Latency: latency, Samples: len(p.ratios), Moved: to != p.threshold}
	if ch.Moved {
		ch.Reason = fmt.Sprintf("predicted %.0f ms of %.0f at %.3f; threshold %.3f", 1e3*latency, 1e3*p.set.SLO, share(p.threshold), share(to))
	}
	p.moved(now, to)
	return ch
}

// moved takes a threshold.
func (p *Predictive) moved(now float64, to int) {
	if to < p.threshold && p.rose {
		p.calm = now + p.set.Calm
	}
	if to != p.threshold {
		p.rose = to > p.threshold
	}
	p.threshold = to
}

// scale is what predictions are multiplied with, so that they suffice for a share of steps.
func (p *Predictive) scale() float64 {
	if len(p.ratios) == 0 {
		return 1
	}
	p.sorted = append(p.sorted[:0], p.ratios...)
	return NearestRank(p.sorted, p.set.Share)
}

func (p *Predictive) predict(d Demand, accesses, scale float64) float64 {
	return d.Waited + d.Steps*scale*p.costs.Seconds(d.Rows, accesses)
}

// largest is the largest threshold of the curve that keeps the SLO with a margin; 0 if none does.
func (p *Predictive) largest(d Demand, scale float64) int {
	for i := len(d.Curve) - 1; i > 0; i-- {
		if p.predict(d, d.Curve[i], scale) <= p.set.Margin*p.set.SLO {
			return d.Curve.threshold(i)
		}
	}
	return 0
}

// remember keeps what was wanted of late, and returns the lowest of it: what would have been
// enough all the time. It is 0 until it has been told for so long.
func (p *Predictive) remember(now float64, threshold int) (held int) {
	if p.since == nil {
		p.since = &now
	}
	p.wanted = append(p.wanted, wanted{now, threshold})
	old := 0
	for old < len(p.wanted)-1 && p.wanted[old].at < now-p.set.Hold {
		old++
	}
	p.wanted = p.wanted[:copy(p.wanted, p.wanted[old:])]
	if now-*p.since < p.set.Hold {
		return 0
	}
	held = One
	for _, w := range p.wanted {
		held = min(held, w.threshold)
	}
	return held
}

// One is a threshold of 1: every row has its own expert.
const One = 1_000_000

// Strategy says what becomes of the rows of experts in S2.
type Strategy uint8

// The strategies, with the numbers that messages carry; 0 is none.
const (
	Partial Strategy = 1 // the united expert of the group computes them
	Full    Strategy = 2 // nothing is added for them
)

func (s Strategy) String() string {
	switch s {
	case Partial:
		return "partial"
	case Full:
		return "full"
	}
	return fmt.Sprintf("strategy %d", uint8(s))
}

// ErrSettings says that a brownout cannot be as it is asked for.
var ErrSettings = errors.New("this brownout cannot be")

// ParseStrategy reads what String writes.
func ParseStrategy(text string) (Strategy, error) {
	for _, s := range []Strategy{Partial, Full} {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%w: there is no strategy %q; there are partial and full", ErrSettings, text)
}

// Millionths is a threshold from 0 to 1 as Split wants it.
func Millionths(threshold float64) (int, error) {
	if !(threshold >= 0 && threshold <= 1) {
		return 0, fmt.Errorf("%w: a threshold is %v; it must be from 0, where no expert keeps its rows, to 1, where all do", ErrSettings, threshold)
	}
	return int(math.Round(threshold * One)), nil
}

// Settings are how a layer is split.
type Settings struct {
	Strategy  Strategy
	Way       int // experts of a group
	Threshold int // millionths
	// Without says of which groups there is no united expert; nil is none. Their experts run
	// themselves.
	Without []bool
	// Grouping is that of the united experts; nil is by the experts' numbers.
	Grouping *Grouping
}

// Check says what is wrong with settings for a layer of so many experts.
func (s Settings) Check(experts int) error {
	switch {
	case s.Strategy != Partial && s.Strategy != Full:
		return fmt.Errorf("%w: %v is unknown; there are partial and full", ErrSettings, s.Strategy)
	case s.Threshold < 0 || s.Threshold > One:
		return fmt.Errorf("%w: a threshold is %d millionths; it must be 0 to %d", ErrSettings, s.Threshold, One)
	case !s.Grouping.fits(experts):
		return fmt.Errorf("%w: it is grouped as a layer of %d experts, and this one has %d", ErrSettings, len(s.Grouping.order), experts)
	case s.Strategy == Partial && (s.Way < 2 || s.Way > experts):
		return fmt.Errorf("%w: the way is %d; a united expert stands in for at least 2 experts, and a layer has %d", ErrSettings, s.Way, experts)
	case s.Without != nil && s.Strategy == Partial && len(s.Without) != Groups(experts, s.Way):
		return fmt.Errorf("%w: it is told of %d groups whether they have united experts; there are %d", ErrSettings, len(s.Without), Groups(experts, s.Way))
	}
	return nil
}

// Groups is how many groups experts have by a way. The last one may be smaller.
func Groups(experts, way int) int { return (experts + way - 1) / way }
