package cuda

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Settings of a device.
type Settings struct {
	device.Settings
	// Memory is what the device takes of the GPU, experts and buffers; 0 is nine
	// tenths of what is free.
	Memory int64
	// Parts is how many bf16 numbers a row's element is the sum of: 1 for rows
	// that are bf16 on the wire, 2 for others.
	Parts int
	// Kernels multiply weights of bf16.
	Kernels cuda.Kernels
	// Patience is how long the GPU may take for one call; 0 is DefaultPatience.
	Patience time.Duration
}

// DefaultPatience is far more than any call takes, and what the other services
// wait for a host that hangs.
const DefaultPatience = 10 * time.Second

// Device holds and computes experts on one GPU.
type Device struct {
	*device.Store[*expert]
	*health
	driver cuda.Driver
	arena  *cuda.Arena
	loader *loader
	shape  shape
	lanes  chan *lane
	all    []*lane
}

var (
	_ device.Device = (*Device)(nil)
	_ device.Failer = (*Device)(nil)

	_ forward.Summer = (*Device)(nil)
)

// Open takes the memory of a GPU and brings the kernels there. The driver is the
// device's from then on, also when opening fails; the model is the caller's and
// outlives it.
func Open(m *model.Model, driver cuda.Driver, images cuda.Images, s Settings) (*Device, error) {
	return open(m, driver, images, s, tuning{})
}

// tuning is what tests change.
type tuning struct {
	rows    int   // of one launch at most; 0: by the sizes
	buffer  int64 // bytes of a load's buffer at most; 0: wayBytes
	through func(device.Loader[*expert]) device.Loader[*expert]
}

func open(m *model.Model, driver cuda.Driver, images cuda.Images, s Settings, t tuning) (_ *Device, err error) {
	d := &Device{driver: driver, health: newHealth(cmp.Or(s.Patience, DefaultPatience))}
	defer func() {
		if err != nil {
			d.free()
		}
	}()
	if err := s.Kernels.On(driver.Info()); err != nil {
		return nil, err
	}
	if d.shape, err = shapeOf(m, s.Parts, s.Kernels); err != nil {
		return nil, err
	}
	if s.Memory, err = memoryOf(driver, s.Memory); err != nil {
		return nil, err
	}
	d.shape.rows = cmp.Or(t.rows, d.shape.rowsOf(s.Memory))
	kernels, err := openKernels(driver, images, d.shape)
	if err != nil {
		return nil, err
	}
	if d.arena, err = cuda.NewArena(driver, s.Memory, "this host"); err != nil {
		return nil, err
	}
	if err := d.openLanes(kernels); err != nil {
		return nil, err
	}
	if err := d.openLoader(m, kernels, &s, cmp.Or(t.buffer, wayBytes)); err != nil {
		return nil, err
	}
	var from device.Loader[*expert] = d.loader
	if t.through != nil {
		from = t.through(from)
	}
	d.Store = device.NewStore(m.Spec.Layers, m.Spec.Experts, from, s.Settings)
	return d, nil
}

// memoryOf returns so many bytes, or nine tenths of what is free.
func memoryOf(driver cuda.Driver, bytes int64) (int64, error) {
	if bytes != 0 {
		return bytes, nil
	}
	free, err := driver.Free()
	if err != nil {
		return 0, fmt.Errorf("asking for free memory: %w", err)
	}
	return free / 10 * 9, nil
}

// lanesAtOnce is how many calls compute at the same time; more wait.
const lanesAtOnce = 4

func (d *Device) openLanes(k *kernels) error {
	d.lanes = make(chan *lane, lanesAtOnce)
	for range lanesAtOnce {
		l, err := newLane(d.driver, d.arena, k, d.shape, d.health)
		if err != nil {
			return fmt.Errorf("making buffers on the GPU: %w", err)
		}
		d.all = append(d.all, l)
		d.lanes <- l
	}
	return nil
}

// openLoader cuts the rest of the memory into slots, which are the budget if s has none.
func (d *Device) openLoader(m *model.Model, k *kernels, s *Settings, buffer int64) error {
	r, err := newRandom(context.Background(), m, expertMatrices(&m.Spec), k, d.arena, d.driver, d.health)
	if err != nil {
		return err
	}
	room := d.arena.Rest()
	slots, err := d.arena.Slots(d.shape.slot, "an expert of model "+m.Name)
	if err != nil {
		return err
	}
	if s.Loads <= 0 {
		s.Loads = device.DefaultLoads
	}
	if s.Budget == 0 {
		s.Budget = room
	}
	d.loader, err = newLoader(m, s.Kernels, d.driver, slots, s.Loads, buffer, r, d.health)
	return err
}

// Name is "cuda" with what the GPU calls itself.
func (d *Device) Name() string { return "cuda:" + d.driver.Info().Name }

// Compute computes on a lane; see device.Device.
func (d *Device) Compute(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	if len(in.Expert) == 0 {
		return nil
	}
	return d.onLane(func(l *lane) error { return l.compute(d.Store, in, out, &s.Read) })
}

// Sums adds up on the GPU; see forward.Summer.
func (d *Device) Sums(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	if len(in.Expert) == 0 {
		return nil
	}
	return d.onLane(func(l *lane) error { return l.sums(d.Store, in, out, &s.Read) })
}

func (d *Device) onLane(compute func(*lane) error) error {
	if err := d.Err(); err != nil {
		return err
	}
	var l *lane
	select {
	case l = <-d.lanes:
	case <-d.health.failed:
		return d.Err()
	}
	defer func() { d.lanes <- l }()
	return compute(l)
}

// Close ends the device and its driver; see device.Device. The arena goes too, whoever
// still holds experts in it.
func (d *Device) Close() {
	d.Store.Close()
	d.free()
}

// free gives everything back. A lost GPU is asked for nothing: freeing waits for what
// it does, and all of it goes with the process.
func (d *Device) free() {
	lost := d.Err() != nil
	for _, l := range d.all {
		l.close(lost)
	}
	d.all = nil
	if d.loader != nil {
		d.loader.close(lost)
	}
	closeDriver(d.driver, d.arena, lost)
}
