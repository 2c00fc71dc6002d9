package arena

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Settings are what is compared on what.
type Settings struct {
	Suite   Suite
	BackEnd BackEnd
	// Trace are the requests, TraceName what they are called in the report.
	Trace     []trace.Request
	TraceName string
	// Slice is how much of the trace is replayed: the time of this length with
	// most tokens. Short is the same for what is run in many variants.
	Slice, Short time.Duration
	Seed         uint64
	// Seeds is how many seeds, from Seed on, the short slice is run with for intervals; 0 for none.
	Seeds     int
	PerSecond int // iterations of a second of the trace
	Shapes    []string
	// Routing is what rows' experts follow; Fitted tells how well, or what it is.
	Routing routing.Params
	Fitted  string
	Domains int
	// Hosts, CV, Distance, KeepAlive and Accuracy are sim.Settings'; without an
	// accuracy it is what was measured on the demo model.
	Hosts, Distance int
	CV, KeepAlive   float64
	Accuracy        []float64
	// Methods are the accuracies of predictors, for the report alone.
	Methods []Method
	// Time is the form of what devices take.
	Time profiles.Time
	// Variants are whether routings, distances, thresholds and parts are varied.
	Variants bool
	// Sweep is whether assumed constants are varied.
	Sweep bool
	// Threads run policies at once.
	Threads  int
	Progress func(format string, args ...any)
}

// cycle is the time in which the mix of domains shifts through all of them.
const cycle = time.Hour

// strong is what the deviations of popularity are multiplied with for routing that
// is more skewed than the recording's.
const strong = 1.5

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	switch {
	case len(s.Trace) == 0:
		return errors.New("the trace has no requests; name another one")
	case s.Slice <= 0 || s.Short <= 0:
		return fmt.Errorf("slices of %v and %v are asked for; they must be above 0", s.Slice, s.Short)
	case len(s.Shapes) == 0:
		return fmt.Errorf("no shape is named; there are %s", strings.Join(sim.Names(), ", "))
	}
	for i, name := range s.Shapes {
		if slices.Contains(s.Shapes[:i], name) {
			return fmt.Errorf("shape %q is named twice", name)
		}
		m, err := sim.Open(name)
		if err != nil {
			return err
		}
		profile := *m.Profile
		if err := errors.Join(profile.Take(s.Time), s.of(m).Check()); err != nil {
			return fmt.Errorf("shape %s: %w", name, err)
		}
	}
	if err := s.checkSeeds(); err != nil {
		return err
	}
	return s.replay().Check()
}

// of are the simulator's settings for a model.
func (s Settings) of(m sim.Model) sim.Settings {
	if m.Profile != nil {
		profile := *m.Profile
		profile.Time = s.Time
		m.Profile = &profile
	}
	d := sim.Defaults(m)
	d.Hosts, d.CV, d.Distance, d.KeepAlive, d.Seed = s.Hosts, s.CV, s.Distance, s.KeepAlive, s.Seed
	if len(s.Accuracy) > 0 {
		d.Accuracy = s.Accuracy
	}
	return d
}

func (s Settings) replay() sim.Replay {
	return sim.Replay{PerSecond: s.PerSecond, Domains: s.Domains, Cycle: cycle, Seed: s.Seed}
}

// workload is a slice of the trace for a model.
func (s Settings) workload(m sim.Model, p routing.Params, length time.Duration) (*sim.Workload, error) {
	g, err := routing.New(m.Shape, p, s.Domains, s.Seed)
	if err != nil {
		return nil, fmt.Errorf("routing of %s: %w", m.Name, err)
	}
	w, err := s.replay().Workload(trace.Peak(s.Trace, length), g)
	if err != nil {
		return nil, fmt.Errorf("replaying for %s: %w", m.Name, err)
	}
	return w, nil
}
