package paced

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// Rented is a host of a serverless platform: it has at most one replica of each layer's functions,
// each in a container of its own, whose memory decides its speed; or it stands beside attention,
// and has its memory for the experts of all layers.
//
//   - A call takes what the system says of its experts (pkg/policy/cost/serverless): in a function
//     also the rows' way and an invocation's draw. A container computes one call after the other.
//   - Experts of a cold function come one after the other once its container has started; layers
//     have links of their own. A function that has other memory, or other experts beside some that
//     it had, has a new container: it starts with all of its experts while the old one computes.
//   - A call is billed: the memory of its function for as long as it ran. The host beside attention
//     is rented as long as a request runs, and its calls are billed with that.
type Rented struct {
	*Device
	system     *serverless.System
	began      time.Time
	loaders    []*loader  // of each layer
	beside     timeline   // of all layers, where the host stands beside attention
	containers []timeline // of each layer, else

	mu     sync.Mutex
	layers [][]Rental
	coming []coming // of each layer
	state  uint64   // of draws
	meter  *meter.Meter
	units  []metered
	of     map[*forward.Expert]int // what is loaded, with its layer
}

// Rental is what a layer's function on a host is rented with.
type Rental struct {
	Experts []uint32
	Memory  float64
	Beside  bool // attention, with memory for all layers
}

type metered struct {
	unit          meter.Unit
	bytes         float64
	loading, held int // experts
}

// NewRented returns a host of a system. The model, the processors and the system are the caller's and
// outlive it. A seed makes what invocations take beside their work.
func NewRented(m *model.Model, p *pool.Pool, y *serverless.System, name string, seed uint64, s device.Settings) *Rented {
	return newRented(m, p, y, name, seed, s, newWaiter())
}

func newRented(m *model.Model, p *pool.Pool, y *serverless.System, name string, seed uint64, s device.Settings, wait waiter) *Rented {
	profile, layers := profileOf(y, name), m.Spec.Layers
	d := &Rented{
		system: y, began: time.Now(), containers: make([]timeline, layers), layers: make([][]Rental, layers), coming: make([]coming, layers), state: splitmix.Mix(seed),
		meter: meter.New(layers), units: make([]metered, layers), of: map[*forward.Expert]int{},
	}
	cpu := device.PackedOn(m, p, within(profile, s))
	for range layers {
		d.loaders = append(d.loaders, newLoader(profile, &Machine{}, cpu, wait))
	}
	for _, l := range d.loaders {
		l.counts = d.loaders[0].counts
	}
	s.Loads = layers * s.Units(m.Spec) // containers start side by side
	d.Device = newOn(m, p, d.loaders[0], rentedLoader{d}, s)
	return d
}

// profileOf returns a platform's way to load experts.
func profileOf(y *serverless.System, name string) *profiles.Profile {
	f := &y.Functions
	const source = "the platform"
	n := func(v float64) profiles.Number { return profiles.Number{Value: v, Source: source} }
	return &profiles.Profile{
		Name: name, Device: "a serverless platform", Experts: source, ExpertBytes: n(y.Expert), MemoryBytes: n(2 * y.All()),
		Bandwidth: n(f.Parameters.Bandwidth), ColdStart: n(f.Container + f.Parameters.Latency),
	}
}

// reopen counts a layer's memory anew; d.mu is held.
func (d *Rented) reopen(layer int, now float64) {
	u := &d.units[layer]
	d.meter.Drop(&u.unit, now)
	switch {
	case u.bytes == 0 || u.held+u.loading == 0:
	case u.loading > 0:
		d.meter.Take(&u.unit, layer, int64(u.bytes), now)
	default:
		d.meter.Place(&u.unit, layer, int64(u.bytes), now)
	}
}

// rental returns what an expert is rented with; false before a plan has said so. d.mu is held.
func (d *Rented) rental(layer int, expert uint32) (r Rental, ok bool) {
	for _, some := range [...][]Rental{d.layers[layer], d.coming[layer].all} {
		for _, one := range some {
			if slices.Contains(one.Experts, expert) {
				return one, true
			}
		}
	}
	return r, false
}

// Compute returns the CPU's result when the rented function would have it, or when it is there if
// that is later.
func (d *Rented) Compute(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	came := time.Now()
	lent := keeper{Store: d.Store}
	defer lent.giveBack()
	if err := d.compute(&lent, in, out, s); err != nil {
		return err
	}
	beside, seconds := d.takesOf(in)
	took, at := duration(seconds), &d.containers[in.Layer]
	if beside {
		at = &d.beside
	}
	due := at.take(came, took)
	d.counts.computed(took, time.Since(due))
	defer func() { d.counts.released(time.Since(due)) }()
	return d.wait.until(context.Background(), due)
}

// takesOf returns what a call takes where it is rented. Before a plan has said what with, it is rented
// with the largest memory.
func (d *Rented) takesOf(in forward.Routed) (beside bool, seconds float64) {
	if len(in.Expert) == 0 {
		return false, 0
	}
	rows := map[uint32]int{}
	for _, e := range in.Expert {
		rows[e]++
	}
	d.mu.Lock()
	d.settle(in.Layer, d.now())
	r, ok := d.rental(in.Layer, in.Expert[0])
	draw := splitmix.Unit(splitmix.Next(&d.state))
	d.mu.Unlock()
	if sizes := d.system.Sizes(); !ok {
		r.Memory = sizes[len(sizes)-1]
	}
	for _, n := range rows {
		seconds += d.system.Compute(r.Memory, float64(n))
	}
	if r.Beside {
		return true, seconds + 2*d.system.Move(len(in.Expert))
	}
	return false, seconds + float64(len(in.Expert))*d.system.Travel() + d.system.Functions.Invocation(draw)
}

// Begin is the store's, and the function runs from then on.
func (d *Rented) Begin(u *device.Use, layer int, experts []uint32, waited time.Duration) {
	d.Store.Begin(u, layer, experts, waited)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.settle(layer, now)
	// A call pays for its own time alone: rows that come later have no wait behind them.
	u.Layer, u.Access = layer, d.meter.Begin(&d.units[layer].unit, now+meter.Span, now)
	if len(experts) > 0 {
		r, _ := d.rental(layer, experts[0])
		u.Free = r.Beside
	}
}

// End bills the function's memory for as long as it ran, in place of what the experts took.
func (d *Rented) End(u *device.Use) {
	d.Store.End(u)
	d.mu.Lock()
	defer d.mu.Unlock()
	took := d.meter.End(&d.units[u.Layer].unit, u.Access, d.now())
	if u.Free {
		took = 0
	}
	u.Charge(took)
}

// Metered returns what the rented memory has come to: starting, idle and running.
func (d *Rented) Metered() meter.Sums {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for layer := range d.coming {
		d.settle(layer, now)
	}
	return d.meter.Read(now)
}

// MeteredLayer returns what that of a layer has come to.
func (d *Rented) MeteredLayer(layer int) meter.Sums {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if uint(layer) < uint(len(d.coming)) {
		d.settle(layer, now)
	}
	return d.meter.Group(layer, now)
}

// rentedLoader loads each layer's experts by its own link, and meters its container.
type rentedLoader struct{ *Rented }

var _ device.Piecewise[*forward.Expert] = rentedLoader{}

func (l rentedLoader) Size(id forward.ExpertID) (int64, error) { return l.loaders[0].Size(id) }

func (l rentedLoader) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	return l.LoadInPieces(ctx, id, device.Pieces{Next: func() <-chan struct{} { return nil }})
}

func (l rentedLoader) LoadInPieces(ctx context.Context, id forward.ExpertID, p device.Pieces) (*forward.Expert, error) {
	l.comes(id.Layer)
	e, err := l.loaders[id.Layer].LoadInPieces(ctx, id, p)
	l.came(id.Layer, e, err)
	return e, err
}

func (l rentedLoader) Free(e *forward.Expert) {
	l.goes(e)
	l.loaders[0].Free(e)
}

func (d *Rented) comes(layer int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := &d.units[layer]
	if u.loading++; u.loading == 1 && u.held == 0 {
		d.reopen(layer, d.now())
	}
}

// came notes how a load has ended.
func (d *Rented) came(layer int, e *forward.Expert, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := &d.units[layer]
	u.loading--
	if err == nil {
		d.of[e] = layer
		u.held++
	}
	switch {
	case u.held+u.loading == 0:
		d.reopen(layer, d.now())
	case u.loading == 0:
		d.meter.Hold(&u.unit, d.now())
	}
}

func (d *Rented) goes(e *forward.Expert) {
	d.mu.Lock()
	defer d.mu.Unlock()
	layer, held := d.of[e]
	if !held {
		return
	}
	delete(d.of, e)
	if u := &d.units[layer]; u.held > 0 {
		if u.held--; u.held+u.loading == 0 {
			d.reopen(layer, d.now())
		}
	}
}
