// Package patience decides how long the rows of a layer may be away before they
// are sent again. It follows what layers have taken, stage by stage; all times are
// in seconds.
//
//	late = factor × (tail of the gates + of the functions + of the aggregators + of the messages)
//
// within bounds. A tail is the time that 99 of 100 observations do not exceed, of
// the same layer and about as many rows; older ones weigh less. A caller that cannot be sure
// that rows are lost pays with the Budget, so that slowness makes no storm. A caller that has
// heard that a replica is gone goes by medians in place of tails: where replicas come
// and go all the time, the tails are of their faults.
package patience

import (
	"math"
	"math/bits"
)

// Stage is where a layer's time goes.
type Stage int

// The stages.
const (
	Gate Stage = iota
	Function
	Aggregator
	Messages
	// Stages is how many there are.
	Stages
)

// Times are what a layer took, by stage. What depends on no replica's speed, such
// as the wait for weights that a function did not have, is in none of them.
type Times [Stages]float64

// Settings bound the estimates.
type Settings struct {
	// Factor is how many tails a layer may take.
	Factor float64
	// Least and Most bound the result.
	Least, Most float64
}

// classes of rows: a class has twice the rows of the one before it.
const classes = 14

// classOf is the class of so many rows.
func classOf(rows int) int { return min(max(0, bits.Len(uint(max(1, rows)-1))), classes-1) }

// Estimator learns from layers that came back. It is not safe for concurrent use.
type Estimator struct {
	settings Settings
	layers   map[int]*[classes]*seen
}

// New returns an estimator that knows nothing.
func New(s Settings) *Estimator { return &Estimator{settings: s, layers: map[int]*[classes]*seen{}} }

// Observe takes in what a layer took with so many rows.
func (e *Estimator) Observe(layer, rows int, took Times) {
	of := e.layers[layer]
	if of == nil {
		of = &[classes]*seen{}
		e.layers[layer] = of
	}
	class := classOf(rows)
	if of[class] == nil {
		of[class] = newSeen()
	}
	of[class].add(took)
}

// Late is when so many rows of a layer are late; false: too little is known to say.
func (e *Estimator) Late(layer, rows int) (seconds float64, known bool) {
	return e.bounded(layer, rows, beyondTail)
}

// Usual is when so many rows of a layer have been away for longer than usual.
func (e *Estimator) Usual(layer, rows int) (seconds float64, known bool) {
	return e.bounded(layer, rows, beyondMedian)
}

func (e *Estimator) bounded(layer, rows int, beyond float64) (seconds float64, known bool) {
	took, known := e.quantile(layer, classOf(rows), beyond)
	if !known {
		return 0, false
	}
	return min(max(e.settings.Least, e.settings.Factor*took), e.settings.Most), true
}

// quantile is of the class: the time that a share of observations exceeds. A class that
// is not known takes no longer than the next larger one, and no longer than the next
// smaller one as often as its rows fit in.
func (e *Estimator) quantile(layer, class int, beyond float64) (seconds float64, known bool) {
	of := e.layers[layer]
	if of == nil {
		return 0, false
	}
	seconds = math.Inf(1)
	for c := class; c < classes; c++ {
		if of[c].known() {
			seconds, known = of[c].quantile(beyond), true
			break
		}
	}
	for c := class - 1; c >= 0 && !of[class].known(); c-- {
		if of[c].known() {
			return min(seconds, of[c].quantile(beyond)*float64(uint(1)<<(class-c))), true
		}
	}
	return seconds, known
}
