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
		of[class] = &seen{weight: 1}
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

const (
	// enough observations say where the tail is.
	enough = 32
	// beyondTail and beyondMedian are the shares of observations that may exceed them.
	beyondTail, beyondMedian = 0.01, 0.5
	// fade is how much more an observation weighs than the one before it: the last
	// 400 are most of the weight, and four slow ones in a row move the tail.
	fade = 1.0025
	// maxWeight is when weights are made small again.
	maxWeight = 1e9
)

// Buckets of times: each begins √2 times later than the one before it.
const (
	buckets  = 52
	shortest = 1e-6 // seconds; what is shorter is in the first bucket
)

// seen are the observations of one layer and class of rows.
type seen struct {
	n      int
	weight float64 // of the next observation
	sum    float64 // of all weights
	stages [Stages][buckets]float64
}

func (s *seen) known() bool { return s != nil && s.n >= enough }

func (s *seen) add(took Times) {
	s.n = min(s.n+1, enough)
	for stage, seconds := range took {
		s.stages[stage][bucketOf(seconds)] += s.weight
	}
	s.sum += s.weight
	if s.weight *= fade; s.weight > maxWeight {
		s.shrink()
	}
}

func (s *seen) shrink() {
	for stage := range s.stages {
		for b := range s.stages[stage] {
			s.stages[stage][b] /= s.weight
		}
	}
	s.sum, s.weight = s.sum/s.weight, 1
}

// quantile is the sum of the stages' times that a share of observations exceeds. That
// of tails is no less than the tail of the whole.
func (s *seen) quantile(beyond float64) (seconds float64) {
	for stage := range s.stages {
		seconds += end(bucketBefore(&s.stages[stage], beyond*s.sum))
	}
	return seconds
}

// bucketBefore is the first bucket behind which no more weight is than that.
func bucketBefore(of *[buckets]float64, weight float64) (bucket int) {
	for bucket = buckets - 1; bucket > 0; bucket-- {
		if weight -= of[bucket]; weight < 0 {
			return bucket
		}
	}
	return 0
}

func bucketOf(seconds float64) int {
	if !(seconds > shortest) {
		return 0
	}
	return int(min(2*math.Log2(seconds/shortest), buckets-1))
}

// end is where a bucket ends, in seconds.
func end(bucket int) float64 { return shortest * math.Exp2(float64(bucket+1)/2) }
