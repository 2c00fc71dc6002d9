package bursts

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// The phases, as indexes.
const (
	Prefill = 0
	Decode  = 1
)

// Control is what sets the thresholds.
type Control uint8

// The controls.
const (
	None       Control = iota // they stay as they begin
	Algorithm2                // the paper's, by the latencies of steps; a step with a prompt has the prefill threshold
	Steady                    // the same, but for rises that had to be taken back: they are not tried again at once
	Ahead                     // ours, by prediction; rows have their phase's threshold
)

// Settings are an engine and what it does against too many requests.
type Settings struct {
	Device     Device
	Shape      routing.Shape
	Exempt     []int // layers that are not browned out
	Strategy   brownout.Strategy
	Way        int
	Thresholds [2]int // millionths, at the beginning
	Control    Control
	SLO        [2]float64 // seconds of a step, by phase
	Seats      int        // sequences at once
	Length     int        // tokens of a sequence, at most
	// Scale adds a second replica of all experts this long after the SLO is missed first; 0 never.
	Scale float64
	// Shed refuses requests while decode misses its SLO.
	Shed bool
}

// Check says what is wrong with settings.
func (s Settings) Check() error {
	if err := s.Device.Check(); err != nil {
		return err
	}
	if err := s.Shape.Check(); err != nil {
		return err
	}
	switch {
	case s.Seats < 1 || s.Length < 2:
		return fmt.Errorf("%d sequences of %d tokens run at most; there must be 1, of 2", s.Seats, s.Length)
	case s.Control > Ahead:
		return fmt.Errorf("there is no control %d", s.Control)
	case !(s.SLO[0] > 0 && s.SLO[1] > 0):
		return fmt.Errorf("steps may take %v s by phase; both must be above 0", s.SLO)
	case !(s.Scale >= 0) || math.IsInf(s.Scale, 0):
		return fmt.Errorf("a second replica comes after %v s; it must be 0 for never, or more", s.Scale)
	}
	for _, l := range s.Exempt {
		if l < 0 || l >= s.Shape.Layers {
			return fmt.Errorf("layer %d is exempt; there are %d", l, s.Shape.Layers)
		}
	}
	for _, t := range s.Thresholds {
		set := brownout.Settings{Strategy: s.Strategy, Way: s.Way, Threshold: t}
		if err := set.Check(s.Shape.Experts); err != nil {
			return err
		}
	}
	return nil
}

func (s Settings) exempt(layer int) bool { return slices.Contains(s.Exempt, layer) }

// Arrival is a request.
type Arrival struct {
	At             float64
	Prompt, Answer int
	Reads          requests.Reader
}
