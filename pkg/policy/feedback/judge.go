package feedback

import (
	"maps"
	"math"
	"slices"
)

// Settings are what code sets.
type Settings struct {
	// Horizon is how many seconds a change has to help.
	Horizon float64
	// Layers is how many the model has that may change.
	Layers int
}

// Times are what a layer took in steps of about the same rows.
type Times struct {
	Class        int // of rows
	Steps, Rows  float64
	TotalSeconds float64
}

// Judge follows the layers of a model. It is not safe for concurrent use.
type Judge struct {
	s      Settings
	layers map[int]*layer
	width  int     // trials that there may be at once
	fails  int     // of trials in a row
	until  float64 // no trial begins before
	failed float64 // the load of the layer that failed last
	heard  bool
	credit credit

	// snapshot are the curves as they were when trials began last; it is never changed.
	snapshot map[int]*curve
	shot     float64
}

type layer struct {
	curve   *curve
	trial   *trial
	changed float64 // when something changed that was no trial
	fails   int
	until   float64 // no trial begins before
	unsure  bool    // the last one told nothing
	load    float64 // the binary logarithm of a step's rows of late
	failed  float64 // load when the last trial failed
}

// trial is a change while it is judged.
type trial struct {
	expected   float64
	trusted    bool // what is expected counts beside what is measured
	began      float64
	used       float64 // since when gates use it; NaN: not yet
	own, rest  moments // logarithms of times by those before: of this layer, and of the ones that did not change
	before     map[int]*curve
	baseline   float64 // mean squared error of the curve at the samples
	comparable float64 // samples
}

// New returns a judge that knows nothing.
func New(s Settings) *Judge {
	return &Judge{s: s, layers: map[int]*layer{}, width: max(1, s.Layers/partAtFirst), credit: noCredit}
}

const (
	// partAtFirst is of how many layers one is tried at first.
	partAtFirst = 8
	// leastSamples are what a change is compared with, and what it is judged by.
	leastSamples = 4
	// settle is for how many seconds after gates use a change what is told is of before.
	settle = 0.3
	// sure is how many standard errors an effect has to be away from none before the
	// horizon is over, and likely how many then.
	sure, likely = 2.5, 1
	// clip bounds by how much one sample can be off, as a logarithm.
	clip = 1.5
	// pause is the first pause of a layer whose change did not help, generalPause that of all
	// layers, and longest and generalLongest bound them.
	pause, longest               = 120, 3600
	generalPause, generalLongest = 10, 600
	// doubt is the standard deviation of what comes of a change, as a part of what is expected
	// where that can be trusted, and partOf the part of it that has to come. leastError and
	// mostExpected bound a measured standard error, as a logarithm, and what is expected.
	doubt, partOf = 0.5, 0.25
	// spill is the part of what is expected, where that can be trusted, by which the effect can be
	// off beside its scatter: layers that did not change gain as well, since their rows wait for
	// hosts that are done sooner.
	spill                    = 0.5
	leastError, mostExpected = 1e-3, 0.95
	// soon is after how many seconds a trial can be told to go as is expected.
	soon = 2
	// quick is after how many seconds a change that can be trusted stays unless it is measured to
	// bring too little: a burst does not wait for a horizon.
	quick = 4
	// otherLoad is by how many octaves of a step's rows a load is another one than that of a trial
	// that failed, and loadWeight what a step counts in the mean of late.
	otherLoad, loadWeight = 1, 0.02
	// undecided is after how many horizons a trial ends of which nothing can be told.
	undecided = 3
)

func (j *Judge) layer(number int) *layer {
	l := j.layers[number]
	if l == nil {
		l = &layer{curve: newCurve(), changed: math.Inf(-1)}
		j.layers[number] = l
	}
	return l
}

// Hears reports whether anybody has told what layers take: else nothing can be judged.
func (j *Judge) Hears() bool { return j.heard }

// Observe takes in what a layer took.
func (j *Judge) Observe(now float64, number int, t Times) {
	if !(t.Steps > 0 && t.Rows >= t.Steps && t.TotalSeconds > 0) || math.IsInf(t.Rows+t.TotalSeconds, 0) {
		return
	}
	j.heard = true
	l := j.layer(number)
	octaves, log, weight := math.Log2(t.Rows/t.Steps), math.Log(t.TotalSeconds/t.Steps), min(t.Steps, mostWeight)
	l.load += (octaves - l.load) * min(1, weight*loadWeight)
	for other, of := range j.layers {
		if of.trial != nil {
			of.trial.observe(now, number, other == number, l, octaves, log, weight)
		}
	}
	if l.trial == nil {
		l.curve.put(t.Class, octaves, log, weight)
	}
}

// observe takes a time of a layer in that was told while a trial goes on.
func (t *trial) observe(now float64, number int, own bool, l *layer, octaves, log, weight float64) {
	before := t.before[number]
	if !(now >= t.used+settle) || before == nil || !own && l.changed >= t.began {
		return
	}
	was, squared, known := before.at(octaves)
	if !known {
		return
	}
	x := min(max(log-was, -clip), clip)
	if !own {
		t.rest.add(x, weight)
		return
	}
	t.own.add(x, weight)
	t.comparable++
	t.baseline += (squared - t.baseline) / t.comparable
}

// May reports whether a change of a layer may begin now. All layers may be tried at once if what is
// expected can be trusted: a layer is then compared with what it took before. No layer then
// waits because of a trial that told nothing, or of one that failed at another load.
func (j *Judge) May(now float64, number int, trusted bool) bool {
	l := j.layer(number)
	width, until := j.width, max(j.until, l.until)
	if trusted && j.credit.enough() {
		width = max(width, j.s.Layers)
		if l.unsure || l.elsewhere(l.failed) && l.elsewhere(j.failed) {
			until = 0
		}
	}
	return j.running(now) < width && now >= until && l.trial == nil && l.curve.samples() >= leastSamples
}

func (l *layer) elsewhere(load float64) bool { return math.Abs(l.load-load) >= otherLoad }

// running are the trials that others wait for.
func (j *Judge) running(now float64) (n int) {
	for _, l := range j.layers {
		if l.trial != nil && !l.trial.promising(now) {
			n++
		}
	}
	return n
}

// Begin begins a trial: a layer is expected to take less by so much of its time. What is
// expected can be trusted where it is reckoned from what the layer is known to take.
func (j *Judge) Begin(now float64, number int, expected float64, trusted bool) {
	l := j.layer(number)
	if j.snapshot == nil || j.shot != now {
		j.snapshot, j.shot = make(map[int]*curve, len(j.layers)), now
		for n, of := range j.layers {
			j.snapshot[n] = of.curve.clone()
		}
	}
	l.trial, l.changed = &trial{expected: expected, trusted: trusted && j.credit.enough(), began: now, used: math.NaN(), before: j.snapshot}, now
}

// Used notes that gates use a layer's change from now on.
func (j *Judge) Used(now float64, number int) {
	if t := j.layer(number).trial; t != nil && math.IsNaN(t.used) {
		t.used = now
	}
}

// Changed notes that a layer was changed for another reason than its speed.
func (j *Judge) Changed(now float64, number int) { j.layer(number).changed = now }

// Drop ends a trial that cannot be judged, because the layer had to be changed again.
func (j *Judge) Drop(now float64, number int) {
	l := j.layer(number)
	l.trial, l.changed, l.curve = nil, now, newCurve()
}

// Verdict is what became of a change.
type Verdict uint8

// The verdicts.
const (
	Helped   Verdict = iota // the layer takes less
	Likely                  // it was to take less, which could be trusted, and nothing tells otherwise
	Hurt                    // it takes more
	NoHelp                  // no less, as far as can be told
	NoEffect                // no gate used it within its horizon, or no rows came
)

var verdicts = [...]string{Helped: "helped", Likely: "likely helped", Hurt: "hurt", NoHelp: "did not help", NoEffect: "had no effect"}

// Verdicts are all of them, as logs and metrics have them.
func Verdicts() []string { return verdicts[:] }

// Stays says that a change of this verdict is not undone.
func (v Verdict) Stays() bool { return v == Helped || v == Likely }

// String is the verdict as logs and metrics have it.
func (v Verdict) String() string { return verdicts[v] }

// Outcome is what a change was to bring, and what came of it, as parts of the layer's time.
type Outcome struct {
	Layer int
	Verdict
	// Expected and Came are what the layer takes less, below 0 what it takes more; Error is
	// the standard error of Came.
	Expected, Came, Error float64
	// Samples are what Came is of.
	Samples float64
	// Until is when the layer may be changed again.
	Until float64
}

// Judge ends the trials of which enough is known, in the order of their layers.
func (j *Judge) Judge(now float64) (all []Outcome) {
	for _, number := range slices.Sorted(maps.Keys(j.layers)) {
		l := j.layers[number]
		if l.trial == nil {
			continue
		}
		if o, over := l.trial.outcome(now, j.s.Horizon); over {
			o.Layer = number
			j.end(now, l, &o)
			all = append(all, o)
		}
	}
	return all
}

// outcome reports whether a trial is over.
func (t *trial) outcome(now, horizon float64) (o Outcome, over bool) {
	effect, deviation := t.effect()
	o = Outcome{Expected: t.expected, Came: -math.Expm1(effect), Error: deviation * math.Exp(effect), Samples: t.own.n()}
	late := math.IsNaN(t.used) && now-t.began >= horizon
	switch enough := t.own.n() >= leastSamples; {
	case enough && effect+sure*deviation < 0:
		o.Verdict = Helped
	case enough && effect-sure*deviation > 0:
		o.Verdict = Hurt
	case enough && now-t.used >= horizon && effect+likely*deviation < 0:
		o.Verdict = Helped
	case enough && now-t.used >= min(quick, horizon) && t.believed(effect, deviation):
		o.Verdict = Likely
	case enough && now-t.used >= horizon:
		o.Verdict = NoHelp
	case late || now-t.began >= undecided*horizon:
		o.Verdict = NoEffect
	default:
		return o, false
	}
	return o, true
}

// believed says that what is expected and what is measured, each as far as it is sure, come to
// a good part of what is expected.
func (t *trial) believed(effect, deviation float64) bool {
	if !t.trusted || !(t.expected > 0) {
		return false
	}
	expected := math.Log1p(-min(t.expected, mostExpected))
	prior, measured := 1/squared(doubt*expected), 1/squared(max(deviation, leastError))
	return (prior*expected+measured*effect)/(prior+measured) < partOf*expected
}

func squared(x float64) float64 { return x * x }

// promising says that a trial that is trusted goes as is expected so far: others need not wait.
func (t *trial) promising(now float64) bool {
	if !t.trusted || !(now >= t.used+soon) || t.own.n() < leastSamples {
		return false
	}
	return t.believed(t.effect())
}

// effect is by how much the layer's time changed beyond that of the others, as a logarithm,
// and its standard error.
func (t *trial) effect() (log, deviation float64) {
	squared := t.own.error() + t.baseline
	log = t.own.mean
	if t.rest.n() >= leastSamples {
		log -= t.rest.mean
		squared += t.rest.error()
	}
	deviation = math.Sqrt(squared)
	if t.trusted && t.expected > 0 {
		deviation = math.Hypot(deviation, spill*math.Log1p(-min(t.expected, mostExpected)))
	}
	return log, deviation
}

// end learns from a trial. The curve begins anew: it was of the plan before.
func (j *Judge) end(now float64, l *layer, o *Outcome) {
	before := l.trial.before[o.Layer]
	l.trial, l.changed = nil, now
	l.unsure = o.Verdict == NoHelp && o.Error > o.Expected
	j.credit.add(o)
	switch o.Verdict {
	case Helped, Likely:
		l.curve, l.fails, j.fails = newCurve(), 0, 0
		if o.Verdict == Helped {
			j.width = min(2*j.width, max(1, j.s.Layers))
		}
	case NoEffect:
		l.curve, l.until = before, now+pause
	default:
		l.curve, l.failed, j.failed = before, l.load, l.load // it is undone
		l.until = now + min(pause*math.Exp2(float64(l.fails)), longest)
		j.until = max(j.until, now+min(generalPause*math.Exp2(float64(j.fails)), generalLongest))
		l.fails, j.fails = min(l.fails+1, 16), min(j.fails+1, 16)
		j.width = max(1, j.width/2)
	}
	o.Until = l.until
}

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
