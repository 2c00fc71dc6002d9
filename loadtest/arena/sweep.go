package arena

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
)

// factors are what each assumed constant is multiplied with.
var factors = []float64{0.25, 0.5, 2, 4}

// constant is a number that is assumed and not measured.
type constant struct {
	name string
	set  func(s *sim.Settings, factor float64) error
}

// constants are those of the simulator, and of a profile those whose source says so.
func constants(m sim.Model) []constant {
	all := []constant{
		{"other_seconds", func(s *sim.Settings, f float64) error { s.Other *= f; return nil }},
		{"predict_seconds", func(s *sim.Settings, f float64) error { s.Predict *= f; return nil }},
		// The simulator's default is none: factors are of what the scaler takes for one.
		{"message_seconds", func(s *sim.Settings, f float64) error {
			s.MessageSeconds = f * elastic.DefaultSettings().MessageSeconds
			return nil
		}},
		{"keep_alive_seconds", func(s *sim.Settings, f float64) error { s.KeepAlive *= f; return nil }},
		{"wrong_predictions", func(s *sim.Settings, f float64) error {
			s.Accuracy = slices.Clone(s.Accuracy)
			for i, a := range s.Accuracy {
				s.Accuracy[i] = max(0, 1-f*(1-a))
			}
			return nil
		}},
	}
	for _, key := range m.Profile.Assumed() {
		all = append(all, constant{key, func(s *sim.Settings, f float64) error { return rescale(s, key, f) }})
		all = append(all, constant{key + mistaken, func(s *sim.Settings, f float64) error {
			s.Believed = s.Model.Profile
			return rescale(s, key, f)
		}})
	}
	return all
}

// mistaken marks a constant of which policies believe that it is as it was.
const mistaken = " unknown to policies"

func rescale(s *sim.Settings, key string, factor float64) (err error) {
	s.Model.Profile, err = s.Model.Profile.Scaled(key, factor)
	return err
}

// sweep runs the short slice with each assumed constant made smaller and larger.
func (s Settings) sweep(ctx context.Context, m sim.Model) ([]Line, error) {
	if !s.Sweep {
		return nil, nil
	}
	w, err := s.workload(m, s.Routing, min(s.Short, s.Slice))
	if err != nil {
		return nil, err
	}
	var jobs []job
	for _, c := range constants(s.of(m).Model) {
		for _, factor := range factors {
			set := s.of(m)
			if err := c.set(&set, factor); err != nil {
				return nil, fmt.Errorf("%s times %v: %w", c.name, factor, err)
			}
			if set.Check() != nil {
				continue // the model does not fit in so little memory
			}
			for _, j := range s.policies(m, partConstants, routingFitted, w) {
				if slices.Contains(s.Suite.Swept, j.policy.Name) {
					j.settings, j.constant, j.value = set, c.name, factor
					jobs = append(jobs, j)
				}
			}
		}
	}
	return s.runAll(ctx, jobs)
}

// Swing is how far a policy's change against a baseline moves when constants do.
type Swing struct {
	Shape   string  `json:"shape"`
	Policy  string  `json:"policy"`
	What    string  `json:"what"`
	Against string  `json:"against"`
	Low     Extreme `json:"low"`
	High    Extreme `json:"high"`
}

// Extreme is a change, and the constant and factor that it was at.
type Extreme struct {
	Change   float64 `json:"change"`
	Constant string  `json:"constant"`
	Factor   float64 `json:"factor"`
}

func (e Extreme) String() string {
	return fmt.Sprintf("%+.1f %% at %s × %v", 100*e.Change, e.Constant, e.Factor)
}

// swings are those of our policies against the others.
func (r *Report) swings() (all []Swing) {
	for _, shape := range r.shapes() {
		for _, policy := range r.suite.Swept {
			for _, against := range r.suite.Swept {
				if strings.HasPrefix(policy, r.suite.Ours) && !strings.HasPrefix(against, r.suite.Ours) {
					all = append(all, r.swingsOf(shape, policy, against)...)
				}
			}
		}
	}
	return all
}

func (r *Report) swingsOf(shape, policy, against string) (all []Swing) {
	for _, c := range r.suite.Measures {
		w := Swing{Shape: shape, Policy: policy, What: c.What, Against: against, Low: Extreme{Change: math.Inf(1)}, High: Extreme{Change: math.Inf(-1)}}
		for i := range r.Lines {
			l := &r.Lines[i]
			if l.Part != partConstants || l.Shape != shape || l.Policy != policy {
				continue
			}
			if b := r.swept(l, against); b != nil && c.Of(b) > 0 {
				w.take(Extreme{c.Of(l)/c.Of(b) - 1, l.Constant, l.Value})
			}
		}
		if w.Low.Change <= w.High.Change {
			all = append(all, w)
		}
	}
	return all
}

func (w *Swing) take(e Extreme) {
	if e.Change < w.Low.Change {
		w.Low = e
	}
	if e.Change > w.High.Change {
		w.High = e
	}
}

// swept is a policy's line under the same constants as another's.
func (r *Report) swept(as *Line, policy string) *Line {
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.Part == as.Part && l.Shape == as.Shape && l.Constant == as.Constant && l.Value == as.Value && l.Policy == policy {
			return l
		}
	}
	return nil
}
