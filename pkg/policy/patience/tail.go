package patience

import "math"

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

func newSeen() *seen { return &seen{weight: 1} }

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
