package compute

import (
	"math"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A function is invoked where a plan has rented it, starts in no less than its platform takes, and is billed
// beside what the formula of its rows' mode says. loadtest/bench serves dispatches by it in each mode.
func TestInvoke(t *testing.T) {
	y := &scatter.System{
		Model:     scatter.Model{Layers: 1, Experts: 1, TopK: 1, Expert: 100, In: 8, Out: 8},
		Functions: cost.Platform{Sizes: []float64{1 << 20, 2 << 20}, PerCPU: 1 << 20, CPU: cost.Roofline{Bandwidth: 1e9, Rate: 1e6, ElementBytes: 4}, Parameters: cost.Link{Latency: 1, Bandwidth: 100}, Fixed: 2, Random: 3, Direct: 100, Replicas: 2},
	}
	h := NewRentedHost(y, 1)
	defer h.Close()
	if h.Invoke(0, "f", time.Now()) != nil {
		t.Error("nothing has rented it")
	}
	h.Rent(0, "f", 1<<20)
	h.Rent(0, "f", 2<<20)
	if h.Invoke(1, "f", time.Now()) != nil || h.Invoke(0, "g", time.Now()) != nil {
		t.Error("another layer's function, or another one, is rented")
	}
	a, b := h.Invoke(0, "f", time.Now().Add(-time.Hour)), h.Invoke(0, "f", time.Now())
	if least := 2 + 1 + 1.0; a.starts < least || b.starts < least || a.starts == b.starts {
		t.Errorf("they start in %v and %v s, and %v is the least", a.starts, b.starts, least)
	}
	for mode, p := range map[scatter.Mode]*pb.Parcel{scatter.Direct: nil, scatter.Indirect: {Mode: plan.Indirect}, scatter.Pipelined: {Mode: plan.Pipelined, Minibatch: 3}} {
		billed, model := a.Bill(p, 7)
		if want := meter.Invocation(y.Replica(mode, 3, 7, 2<<20), 2<<20, 1); model != want {
			t.Errorf("%s: the model says %v GB·s, want %v", mode, model, want)
		}
		if hour := meter.Invocation(3600, 2<<20, 1); billed < hour || math.IsInf(billed, 0) {
			t.Errorf("%s: billed %v GB·s for an hour, want %v or more", mode, billed, hour)
		}
	}
}

// A stage begins when what was before it was due, though the host came to it later: so a host that wakes late is not billed for that at
// each stage. What the work takes longer than the platform counts, and what failed.
func TestPaced(t *testing.T) {
	h := NewRentedHost(&scatter.System{}, 1)
	defer h.Close()
	long, start := time.Now().Add(-time.Hour), time.Now()
	c := h.Call(1, 0, long)
	c.reached = long
	takes := func(s float64) func() float64 { return func() float64 { return s } }
	nothing := func() error { return nil }
	if err := c.paced(t.Context(), &c.fetched, nothing, takes(3600.05)); err != nil || !c.fetched.Before(start.Add(time.Hour)) || c.fetched.Before(start) || !c.reached.Equal(c.fetched) {
		t.Errorf("an hour late for what takes an hour: fetched %v behind now; %v", c.fetched.Sub(start), err)
	}
	c = h.Call(1, 0, long)
	c.reached = long
	before := time.Now()
	if err := c.paced(t.Context(), &c.fetched, nothing, takes(1)); err != nil || c.fetched.Before(before) || !c.reached.Equal(c.fetched) {
		t.Errorf("the work took longer than a second: fetched by %v, reached %v; %v", c.fetched, c.reached, err)
	}
	c.reached = before
	if err := c.paced(t.Context(), &c.computed, func() error { return transfer.ErrMissing }, takes(1)); err == nil || !c.computed.IsZero() || c.reached.Before(before) {
		t.Errorf("a failure: computed by %v, reached %v; %v", c.computed, c.reached, err)
	}
	due := time.Now().Add(time.Millisecond)
	c.reached, c.storing = before, due
	if err := c.paced(t.Context(), &c.storing, nothing, takes(1e-3)); err != nil || !c.storing.Equal(due.Add(time.Millisecond)) {
		t.Errorf("behind another one: stored by %v, want a millisecond behind %v; %v", c.storing, due, err)
	}
}
