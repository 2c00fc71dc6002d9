package elastic

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/feedback"
)

// Seconds that the past counts, by whose word it is.
const (
	countedWindow   = 3
	predictedWindow = 1
	// predictedFresh is how old a prediction may be that counts.
	predictedFresh = 2
	// gatesFresh is how long gates are believed before hosts are asked: both
	// count the same rows.
	gatesFresh = 60
	// correctedWindow is for how long it counts what came of predictions.
	correctedWindow = 60
	// maxDistance is from where on distances are all the same.
	maxDistance = 16
)

// layer is what is known of one layer.
type layer struct {
	experts int
	gates   *window
	// steps are the parts of microbatches that gates tell of, as if of one expert.
	steps *window
	hosts *window
	// ahead are predictions by their distance.
	ahead [maxDistance + 1]*window
	// foreseen is what predictions were, by their distance, and came what gates counted
	// meanwhile; nil unless predictions are corrected by that.
	foreseen [maxDistance + 1]*window
	came     *window
	// seen is when each expert had rows or was predicted to have some; before
	// that is known, when the plan in force was seen first.
	seen  []float64
	known bool // seen is set
	// probed is when gates told of rows last that are no load.
	probed float64
	// surplus is since when an expert has more replicas than it needs; NaN: it has not.
	surplus []float64
	// kept is since when a replica is loaded and not used.
	kept map[at]float64
	// copiesStay is for how many seconds a replica stays that is not needed beside others of its
	// expert, as the policy said last (world.Placement); 0: as the mode says.
	copiesStay float64
	// copySaves are the seconds that a copy has to save a step, by the policy.
	copySaves float64
	// relief are replicas that are there since all others are on hosts that throttle.
	relief map[at]bool
	row    mean // seconds
	access access
	took   mean // seconds of a step
	// recent are the last steps, and foretold those that were predicted.
	recent, foretold lastSteps
	// try is the change that is judged, undo one that is to be taken back, and outcome what
	// came of that one.
	try, undo *tryout
	outcome   feedback.Outcome
	turns     []turn // of each expert
	// gained is when a change was last decided on for what it gains.
	gained float64

	// total and settled are of a mode with an interval: what is added up, and
	// what the last interval had.
	total   *window
	settled []float64
	ended   float64
}

// at is an expert on a host.
type at struct {
	expert int
	host   string
}

func newLayer(experts int, m mode) *layer {
	l := &layer{
		experts: experts, gates: newWindow(experts, countedWindow), hosts: newWindow(experts, countedWindow),
		steps: newWindow(1, countedWindow),
		seen:  make([]float64, experts), surplus: make([]float64, experts), kept: map[at]float64{},
		gained: math.Inf(-1), probed: math.Inf(-1), turns: make([]turn, experts),
	}
	for e := range l.seen {
		l.seen[e], l.surplus[e], l.turns[e].reversed = math.Inf(-1), math.NaN(), math.Inf(-1)
	}
	if m.every > 0 {
		l.total = newWindow(experts, math.Inf(1))
	}
	if m.corrects {
		l.came = newWindow(experts, correctedWindow)
	}
	return l
}

func (l *layer) predictions(distance uint32) *window {
	if l.ahead[distance] == nil {
		l.ahead[distance] = newWindow(l.experts, predictedWindow)
	}
	return l.ahead[distance]
}

// expected are the rows of each expert in a second; nil if nobody has told.
func (l *layer) expected(now float64, m mode) []float64 {
	if m.every > 0 {
		return l.interval(now, m.every)
	}
	if m.predicted {
		for d, w := range l.ahead { // the nearest is the surest
			if w != nil && w.since(now) <= predictedFresh {
				return asMany(l.corrected(now, d, w.rates(now)), l.counted(now))
			}
		}
	}
	return l.counted(now)
}

// corrected are predicted rates by what came of the predictions of that distance before.
func (l *layer) corrected(now float64, distance int, predicted []float64) []float64 {
	before := l.foreseen[distance]
	if before == nil || !l.came.any {
		return predicted
	}
	came := l.came.rates(now)
	foreseen := asMany(before.rates(now), came)
	for e := range came {
		came[e] *= correctedWindow
		foreseen[e] *= correctedWindow
	}
	return Correct(nil, predicted, foreseen, came)
}

// foresee notes a prediction, to be compared with what comes.
func (l *layer) foresee(now float64, distance uint32, experts, counts []uint32) {
	if l.came == nil {
		return
	}
	if l.foreseen[distance] == nil {
		l.foreseen[distance] = newWindow(l.experts, correctedWindow)
	}
	l.foreseen[distance].addAll(now, experts, counts)
}

// asMany scales predicted rates to as many rows as were counted, if any were:
// predictors may tell of a share of the rows only.
func asMany(predicted, counted []float64) []float64 {
	all, some := sum(counted), sum(predicted)
	if all > 0 && some > 0 {
		for e := range predicted {
			predicted[e] *= all / some
		}
	}
	return predicted
}

// gatesTell reports whether gates say of late which rows are load: hosts compute probes, too.
func (l *layer) gatesTell(now float64) bool {
	return min(l.gates.since(now), now-l.probed) <= gatesFresh
}

func (l *layer) counted(now float64) []float64 {
	if !l.gatesTell(now) && l.hosts.any {
		return l.hosts.rates(now)
	}
	return l.gates.rates(now)
}

// stepRate is how many parts of microbatches there are in a second; 0 if gates
// have not told of late.
func (l *layer) stepRate(now float64) float64 {
	if l.steps.since(now) > gatesFresh {
		return 0
	}
	return sum(l.steps.rates(now))
}

// interval are the rates of the last whole interval.
func (l *layer) interval(now, every float64) []float64 {
	if l.ended == 0 {
		l.ended = now
	}
	if now-l.ended >= every {
		if rates := l.total.rates(now); rates != nil {
			l.settled = rates
		}
		l.total, l.ended = newWindow(l.experts, math.Inf(1)), now
	}
	return l.settled
}

// inherit takes the plan in force for what was before: experts that are cold have
// had no rows for long, the others may have had some just now.
func (l *layer) inherit(now float64, cold func(expert int) bool) {
	if l.known {
		return
	}
	l.known = true
	for e := range l.seen {
		if !cold(e) {
			l.seen[e] = max(l.seen[e], now)
		}
	}
}

// retired is a replica that is loaded and not used.
type retired struct {
	w            *work
	expert, host int
	since        float64
}

// keep leaves replicas loaded that are not used any more, until their time is
// over or somebody needs the memory. Those go first that were retired first.
func (r *round) keep() {
	var all []retired
	for i := range r.hosts {
		r.hosts[i].kept = 0
	}
	for _, w := range r.layers {
		all = append(all, r.retiredOf(w)...)
	}
	slices.SortStableFunc(all, func(a, b retired) int { return cmp.Compare(b.since, a.since) })
	for _, one := range all {
		h := &r.hosts[one.host]
		if h.full || h.used+h.kept >= h.slots || beyond(one.w.next) >= r.cap(math.MaxInt32) {
			one.w.why.count(byPressure, 1)
			continue
		}
		h.kept++
		one.w.next.put(one.expert, one.host, kept)
	}
}

// beyond is how many replicas a layer has beyond each expert's first, loaded ones that are
// not used too.
func beyond(l layout) (n int) {
	for _, spots := range l {
		n += max(0, len(spots)-1)
	}
	return n
}

// retiredOf are a layer's replicas that are loaded and not used, but for those
// whose time is over and those of experts that go to zero.
func (r *round) retiredOf(w *work) (all []retired) {
	before := w.kept
	w.kept = map[at]float64{}
	for e, spots := range w.old {
		for _, s := range spots {
			if s.want == cold || w.next.on(e, s.host) != 0 || w.idle[e] {
				continue
			}
			since, known := before[at{e, r.hosts[s.host].id}]
			if !known || s.want == warm {
				since = r.retiredSince(w, e)
			}
			if r.now-since >= cmp.Or(w.copiesStay, r.c.mode.keepAlive) {
				w.why.count(byAge, 1)
				continue
			}
			if s.want == kept {
				w.kept[at{e, r.hosts[s.host].id}] = since
			}
			all = append(all, retired{w, e, s.host, since})
		}
	}
	return all
}

// retiredSince is from when on a replica that is retired now is kept. Where a policy says for
// how long copies stay, the time counts in which it served and was not needed.
func (r *round) retiredSince(w *work, e int) float64 {
	if w.copiesStay > 0 && !math.IsNaN(w.surplus[e]) {
		return w.surplus[e]
	}
	return r.now
}

func placements(l layout) (n int) {
	for _, spots := range l {
		n += len(spots)
	}
	return n
}
