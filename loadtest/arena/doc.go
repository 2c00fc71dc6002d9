// Package arena compares the policies of the control loop on one trace: it runs
// them on a simulated clock, and writes a report as JSON, CSV and a page with plots.
// On the real pipeline they are compared by package replay, whose times are
// measured and whose routing is the model's own.
package arena

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/loadtest/sim"
)

// BackEnd runs a workload under a policy: the simulator, and in tests what fails.
type BackEnd interface {
	// Device says what the times are of.
	Device() string
	// Run is one policy's result. The error is ctx's when that ends.
	Run(ctx context.Context, w *sim.Workload, s sim.Settings, p sim.Policy) (*sim.Result, error)
}

// Simulator is the back end with a simulated clock.
type Simulator struct{}

// Device says that times are simulated.
func (Simulator) Device() string { return "simulated" }

// Run simulates.
func (Simulator) Run(ctx context.Context, w *sim.Workload, s sim.Settings, p sim.Policy) (*sim.Result, error) {
	s.Stopped = func() bool { return ctx.Err() != nil }
	r, err := sim.Run(w, s, p)
	if errors.Is(err, sim.ErrStopped) {
		return nil, fmt.Errorf("simulating policy %s: %w", p.Name, ctx.Err())
	}
	return r, err
}
