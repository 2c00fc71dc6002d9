package paced

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// rentable takes 10 ms to read an expert of 1000 bytes with a processor, of which there is one for
// 1000 bytes, 1 ms for a row's way and 5 ms for an invocation; a container starts in 20 ms, and an
// expert comes in 100.
func rentable(m *model.Model) *serverless.System {
	return &serverless.System{
		Model: serverless.Model{Layers: m.Spec.MoELayers(), Experts: m.Spec.Experts, TopK: m.Spec.TopK, Expert: 1000, Token: 100},
		Functions: cost.Platform{
			Sizes: []float64{1000, 2000, 8000}, PerCPU: 1000, CPU: cost.Roofline{Bandwidth: 1e5, Rate: 1e15, ElementBytes: 2},
			Container: 0.02, Parameters: cost.Link{Bandwidth: 1e4}, Fixed: 0.005, Payload: 1e6, Prices: cost.Prices{Memory: 1},
		},
		Switch: cost.Link{Latency: 0.0005, Bandwidth: 1e15}, Network: 2e5, Replicas: 1,
	}
}

// rented is a rented device in a bubble.
type rented struct {
	*Rented
	t *testing.T
}

func newRentedIn(t *testing.T) rented {
	m := tiny(t)
	d := newRented(m, pool.New(1), rentable(m), "made-up", 1, device.Settings{}, timers{})
	t.Cleanup(d.Close)
	return rented{d, t}
}

// call computes rows of layer 0, one for each of the experts, and returns what it was billed.
func (d rented) call(experts ...uint32) (billed float64) {
	d.t.Helper()
	width, n := tiny(d.t).Spec.Hidden, len(experts)
	in := forward.Routed{X: make([]float32, n*width), Expert: experts, Weight: make([]float32, n)}
	for i := range n {
		in.Source = append(in.Source, uint32(i))
	}
	var use device.Use
	d.Begin(&use, 0, experts, 0)
	if err := d.Compute(in, make([]float32, n*width), &forward.ExpertScratch{}); err != nil {
		d.t.Fatal(err)
	}
	d.End(&use)
	for i := range use.Entries() {
		billed += use.Took(i)
	}
	return billed
}

// took wants do to take so many milliseconds.
func (d rented) took(ms float64, do func()) {
	d.t.Helper()
	began := time.Now()
	do()
	if got := time.Since(began).Seconds() * 1e3; math.Abs(got-ms) > 1e-3 {
		d.t.Errorf("it took %v ms, want %v", got, ms)
	}
}

func (d rented) load(experts ...int) {
	d.t.Helper()
	var all []*device.Ticket
	for _, e := range experts {
		all = append(all, d.Load(d.t.Context(), forward.ExpertID{Expert: e}, 0))
	}
	for _, ticket := range all {
		if err := ticket.Wait(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
}

// A function's container starts once for its experts, a call takes what its memory lets it, and is
// billed for that; memory beside attention is quicker to reach, and no call of it is billed.
func TestRented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newRentedIn(t)
		d.Rent(0, []Rental{{Experts: []uint32{0, 1}, Memory: 1000}})
		d.took(20+100+100, func() { d.load(0, 1) })
		d.took(10+10+4+5, func() {
			if billed := d.call(0, 0, 0, 1); math.Abs(billed-1000*0.029) > 1e-3 {
				t.Errorf("%v bytes·s, want 29", billed)
			}
		})
		time.Sleep(time.Second)
		if s := d.Metered(); math.Abs(s.Loading*1e9-220) > 1 || math.Abs(s.Kept*1e9-1000) > 1 || math.Abs(s.Serving*1e9-29) > 1 || math.Abs(s.Taken*1e9-29) > 1 {
			t.Errorf("%+v", s)
		}
		d.Rent(0, []Rental{{Experts: []uint32{0, 1}, Memory: 2000}})
		d.took(10+1+5, func() { d.call(1) }) // until its container has started
		time.Sleep(time.Second)
		d.took(5+1+5, func() { d.call(1) })
		if s := d.Metered(); math.Abs(s.Loading*1e9-220-2000*0.220) > 1 || s.Loads != 2 {
			t.Errorf("a new container has started: %+v", s)
		}
		d.Rent(0, []Rental{{Experts: []uint32{0, 1}, Memory: 8000, Beside: true}})
		d.took(2*1.25+1, func() {
			if billed := d.call(0, 1); billed != 0 {
				t.Errorf("a call beside attention is billed %v", billed)
			}
		})
		d.Rent(99, nil) // there is no such layer
	})
}

// What no plan speaks of has the largest memory, and nothing is billed.
func TestRentedUnplanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newRentedIn(t)
		d.load(2)
		d.took(1.25+1+5, func() {
			if billed := d.call(2); billed != 0 {
				t.Errorf("it is billed %v", billed)
			}
		})
		if err := d.Evict(forward.ExpertID{Expert: 2}); err == nil {
			t.Error("an expert that is held goes")
		}
	})
}
