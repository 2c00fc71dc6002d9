package quality

import (
	"strconv"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// splitter changes what gates chose, as a brownout of one setting does.
type splitter struct {
	*Settings
	router *forward.Router

	way       string
	group     int // the way as a number; 0 is none
	threshold int

	p         brownout.Splitter
	count     []int32
	loss      []float64
	distances map[int][][]float64 // by way and layer
	without   map[int][][]bool
	grouping  map[int][]*brownout.Grouping
	scores    []float32

	before, after, total, kept int // since the setting began
}

// begin sets what is measured next.
func (s *splitter) begin(way string, threshold int) {
	s.way, s.threshold = way, threshold
	s.group, _ = strconv.Atoi(way)
	s.before, s.after, s.total, s.kept = 0, 0, 0, 0
}

// redirect is direct.Settings.Redirect.
func (s *splitter) redirect(layer int, x []float32, r *forward.Routes) error {
	s.tally(r)
	if s.way == Fewer && !s.exempt(layer) && s.threshold < brownout.One {
		s.fewer(r)
		return nil
	}
	d, err := s.decide(layer, r)
	if err != nil {
		return err
	}
	s.before, s.after, s.total, s.kept = s.before+d.Before, s.after+d.After, s.total+d.Total, s.kept+d.Kept
	if s.way == Reroute {
		return s.reroute(layer, x, r, d)
	}
	for i := 0; i < len(r.Expert); i += r.K {
		d.Redirect(r.Expert[i:i+r.K], r.Weight[i:i+r.K])
	}
	return nil
}

func (s *splitter) tally(r *forward.Routes) {
	if s.count == nil {
		s.count = make([]int32, s.Model.Spec.Experts)
	}
	clear(s.count)
	for _, e := range r.Expert {
		s.count[e]++
	}
}

// decide splits the rows of a layer.
func (s *splitter) decide(layer int, r *forward.Routes) (*brownout.Decision, error) {
	set := brownout.Settings{Strategy: brownout.Full, Threshold: s.threshold}
	rows := brownout.Rows{Count: s.count}
	if s.group > 0 {
		set.Strategy, set.Way, set.Without, set.Grouping = brownout.Partial, s.group, s.without[s.group][layer], s.grouping[s.group][layer]
		if s.ByLoss {
			s.expect(s.distances[s.group][layer], r)
			rows.Loss = s.loss
		}
	}
	if s.exempt(layer) {
		set.Threshold = brownout.One
	}
	return s.p.Split(set, rows)
}

// expect makes Σg² times the distance of each expert.
func (s *splitter) expect(distance []float64, r *forward.Routes) {
	s.loss = append(s.loss[:0], make([]float64, len(s.count))...)
	for i, e := range r.Expert {
		s.loss[e] += float64(r.Weight[i]) * float64(r.Weight[i]) * distance[e]
	}
}

// fewer leaves the last slot of each row out.
func (s *splitter) fewer(r *forward.Routes) {
	for _, n := range s.count {
		if n > 0 {
			s.before++
		}
	}
	clear(s.count)
	for i := range r.Expert {
		s.total++
		if i%r.K == r.K-1 && r.K > 1 {
			r.Expert[i], r.Weight[i] = forward.NoExpert, 0
			continue
		}
		s.kept++
		s.count[r.Expert[i]]++
	}
	for _, n := range s.count {
		if n > 0 {
			s.after++
		}
	}
}

// reroute gives each slot of S2 to the kept expert that the row's gate finds most probable and
// that the row does not have yet.
func (s *splitter) reroute(layer int, x []float32, r *forward.Routes, d *brownout.Decision) error {
	n := len(s.count)
	s.scores = append(s.scores[:0], make([]float32, r.Rows()*n)...)
	if err := s.router.Probabilities(layer, x, s.scores); err != nil {
		return err
	}
	for row := range r.Rows() {
		slots, scores := r.Expert[row*r.K:(row+1)*r.K], s.scores[row*n:(row+1)*n]
		for i, e := range slots {
			if d.Fate[e].Itself() {
				scores[e] = -1 // the row has it
			} else {
				slots[i] = forward.NoExpert
			}
		}
		for i, e := range slots {
			if e != forward.NoExpert {
				continue
			}
			if best := mostOf(scores, d); best >= 0 {
				slots[i], scores[best] = int32(best), -1
			} else {
				r.Weight[row*r.K+i] = 0
			}
		}
	}
	return nil
}

// mostOf is the kept expert with the highest score of at least 0; -1 if there is none.
func mostOf(scores []float32, d *brownout.Decision) int {
	best, most := -1, float32(-0.5)
	for e, v := range scores {
		if d.Fate[e].Itself() && v > most {
			best, most = e, v
		}
	}
	return best
}
