package bo

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

func (s *Search) unit() float64 { return splitmix.Unit(splitmix.Next(&s.Drawn)) }

func (s *Search) upTo(n uint64) uint64 { return splitmix.Next(&s.Drawn) % n }

func (s *Search) ofL(q int) bool { return float64(q) < s.Settings.Mu*float64(s.Settings.Q) }

// acquire are the next round's variables.
func (s *Search) acquire() ([]bayes.Pair, error) {
	switch s.Settings.Acquisition {
	case Random:
		return s.fresh(), nil
	case TPE:
		return s.parzen(), nil
	}
	best, err := s.promising()
	if err != nil {
		return nil, err
	}
	next := make([]bayes.Pair, s.Settings.Q)
	for q := range next {
		epsilon := s.Epsilon[1]
		if s.ofL(q) {
			epsilon = s.Epsilon[0]
		}
		if s.unit() < epsilon {
			next[q] = s.draw(q)
		} else {
			next[q] = best[q]
		}
	}
	return next, nil
}

// promising is the candidate with the least posterior mean: one of the past, or one that is drawn from
// L and P.
func (s *Search) promising() ([]bayes.Pair, error) {
	n := len(s.Trials)
	distances := make([][]float64, n)
	for i := range n {
		for j := range n {
			distances[i] = append(distances[i], apart(s.Trials[i].Loads, s.Trials[j].Loads))
		}
	}
	gp := fit(distances, costs(s.Trials))
	var best []bayes.Pair
	least := math.Inf(1)
	for i := range n {
		if c := gp.at(distances[i]); c < least {
			least, best = c, s.Trials[i].Pairs
		}
	}
	for range s.Settings.Fresh {
		pairs := s.fresh()
		loads, err := s.Foretell(pairs)
		if err != nil {
			return nil, err
		}
		to := make([]float64, n)
		for j := range n {
			to[j] = apart(loads, s.Trials[j].Loads)
		}
		if c := gp.at(to); c < least {
			least, best = c, pairs
		}
	}
	return best, nil
}

// fresh are variables that are all drawn.
func (s *Search) fresh() []bayes.Pair {
	pairs := make([]bayes.Pair, s.Settings.Q)
	for q := range pairs {
		pairs[q] = s.draw(q)
	}
	return pairs
}

// draw is a value of a variable's range: a key of L with another value; or a key of P, which has
// another value or is new.
func (s *Search) draw(q int) bayes.Pair {
	if s.ofL(q) && len(s.wrong) > 0 {
		layer, token := int(s.upTo(uint64(len(s.Table.Layers)))), s.wrong[s.upTo(uint64(len(s.wrong)))]
		if p, ok := s.Table.Entry(layer, token, splitmix.Next(&s.Drawn)); ok {
			p.Count = s.value()
			return p
		}
	}
	layer, token := int(s.upTo(uint64(len(s.Table.Layers)))), uint32(s.upTo(uint64(s.Table.Vocab)))
	if p, ok := s.Table.Entry(layer, token, splitmix.Next(&s.Drawn)); ok && s.unit() < 0.5 {
		p.Count = s.value()
		return p
	}
	return bayes.Pair{
		Layer: layer, Expert: int(s.upTo(uint64(s.Table.Experts))), Count: s.value(),
		Features: bayes.Features{Token: token, Position: uint32(s.upTo(uint64(s.farthest) + 1)), Key: uint32(s.upTo(uint64(s.Table.Vocab)))},
	}
}

// value is a positive integer up to twice the table's largest, each order of magnitude alike.
func (s *Search) value() uint32 {
	return uint32(math.Exp(s.unit() * math.Log(2*float64(max(1, s.largest)))))
}

// good is the share of trials, the cheapest, that count as good for the Parzen estimator, and tries how many values it
// compares for a variable.
const (
	good  = 0.25
	tries = 8
)

// parzen takes for each variable, of values near those of good trials and of drawn ones, the one
// that is likeliest among good trials by how likely it is among the others.
func (s *Search) parzen() []bayes.Pair {
	order := byCost(s.Trials)
	n := max(1, int(good*float64(len(order))))
	if len(order) < 4 {
		return s.fresh()
	}
	pairs := make([]bayes.Pair, s.Settings.Q)
	for q := range pairs {
		best := math.Inf(-1)
		for range tries {
			p := s.near(&order[s.upTo(uint64(n))].Pairs[q], q)
			if score := density(order[:n], q, p) - density(order[n:], q, p); score > best {
				best, pairs[q] = score, p
			}
		}
	}
	return pairs
}

// near is a value like another one, or a drawn one.
func (s *Search) near(p *bayes.Pair, q int) bayes.Pair {
	if p.Count == 0 || s.unit() < 0.25 {
		return s.draw(q)
	}
	one := *p
	one.Count = uint32(max(1, math.Min(math.MaxInt32, float64(p.Count)*math.Exp(2*s.unit()-1))))
	return one
}

// density is the logarithm of how likely a value is among trials: kernels around theirs, and one
// that is everywhere.
func density(trials []*Trial, q int, p bayes.Pair) float64 {
	sum := 1.0
	for _, t := range trials {
		of := &t.Pairs[q]
		if of.Count > 0 && of.Layer == p.Layer && of.Features == p.Features && of.Expert == p.Expert {
			d := math.Log(float64(of.Count)) - math.Log(float64(p.Count))
			sum += math.Exp(-d * d / 2)
		}
	}
	return math.Log(sum / float64(len(trials)+1))
}

// byCost are the trials, the cheapest first.
func byCost(trials []Trial) []*Trial {
	order := make([]*Trial, len(trials))
	for i := range trials {
		order[i] = &trials[i]
	}
	slices.SortStableFunc(order, func(a, b *Trial) int { return cmp.Compare(a.Cost, b.Cost) })
	return order
}
