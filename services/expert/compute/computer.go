package compute

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Computer computes dispatches on a device. It keeps its buffers, so one goroutine at a time
// uses it.
type Computer struct {
	device device.Device
	shape  *wire.Shape
	wire   tensor.Wire
	united Numbers

	units  []uint32 // of a dispatch of united experts, as the device names them
	x, out []float32
	source []uint32 // the tensor's row of each routed row
	first  []int32  // the first routed row of each token row
	// Of each row of a partial with sums, its place and how many slots it is the sum of.
	place   []uint32
	slots   []int
	sum     []float32 // one of them
	scratch forward.ExpertScratch
	buf     []byte
	use     device.Use
	took    []float32 // of memory, by place of the partial
}

// Compute returns the partial of a dispatch: one weighted row per routed row,
// in the dispatch's order, or if the aggregator takes row sums, the sums of the rows that are
// here as a whole. It is valid until the next call. The partial carries
// took, to which Compute adds its own time.
func (c *Computer) Compute(d *pb.Dispatch, took *pb.FunctionTime) (*pb.Partial, error) {
	watch := ledger.StartAt(time.Now())
	rows, err := c.shape.CheckDispatch(d)
	if err != nil {
		return nil, err
	}
	units, err := c.unitsOf(d)
	if err != nil {
		return nil, err
	}
	width := c.shape.Hidden
	c.x = reuse.Slice(c.x, rows*width)
	if err := tensor.Decode(c.x, d.Tensor, width); err != nil {
		return nil, err
	}
	routed := forward.Routed{Layer: int(d.Key.Layer), X: c.x, Source: c.sources(d.Place), Expert: units, Weight: d.Weight}
	took.TransferNs += watch.Lap()
	c.device.Begin(&c.use, routed.Layer, routed.Expert, time.Duration(took.QueueNs+took.StallNs+took.TransferNs))
	places, out, err := c.outputs(d, routed)
	c.device.End(&c.use)
	if err != nil {
		return nil, fmt.Errorf("computing rows of layer %d: %w", d.Key.Layer, err)
	}
	took.Rows, took.ComputeNs = uint32(len(d.Expert)), watch.Lap()
	t := tensor.Encode(c.wire, out, width, c.buf)
	c.buf = t.Data
	took.TransferNs += watch.Lap()
	return &pb.Partial{
		Key: d.Key, Place: places, Tensor: t, Awaits: d.Awaits, Gate: d.Gate, Function: took, Fates: d.Fates, Decision: d.Decision, ByteSeconds: c.shares(len(places)),
	}, nil
}

// unitsOf returns a dispatch's experts as the device names them.
func (c *Computer) unitsOf(d *pb.Dispatch) ([]uint32, error) {
	if d.Kind != plan.United {
		return d.Expert, nil
	}
	c.units = c.units[:0]
	for _, g := range d.Expert {
		number, ok := 0, false
		if c.united != nil {
			number, ok = c.united.Number(int(d.Key.Layer), int(d.Way), int(g))
		}
		if !ok {
			return nil, &UnitError{d.Function, fmt.Sprintf("this host has no weights of united expert %d of way %d of layer %d", g, d.Way, d.Key.Layer)}
		}
		c.units = append(c.units, uint32(number))
	}
	return c.units, nil
}

// sources returns the tensor's rows of places, which ascend.
func (c *Computer) sources(places []uint32) []uint32 {
	c.source = c.source[:0]
	at := uint32(0)
	for i, place := range places {
		if i > 0 && c.shape.Row(place) != c.shape.Row(places[i-1]) {
			at++
		}
		c.source = append(c.source, at)
	}
	return c.source
}

// shares returns what each of so many places took of memory: the routed rows that it is the sum of.
func (c *Computer) shares(places int) []float32 {
	c.took = reuse.Slice(c.took, places)
	entries := c.use.Entries()
	for i, at := 0, 0; i < places; i++ {
		n, sum := 1, 0.0
		if places < entries {
			n = c.slots[i]
		}
		for ; n > 0; n-- {
			sum += c.use.Took(at)
			at++
		}
		c.took[i] = float32(sum)
	}
	return c.took
}

// StuckAfter is longer than any dispatch takes, and leaves attention the time
// to have its rows computed elsewhere.
const StuckAfter = 10 * time.Second

// Computers are shared by a host's functions: there are as many as compute at
// the same time, and a wide dispatch's buffers are not kept for each function.
type Computers struct {
	device device.Device
	shape  *wire.Shape
	wire   tensor.Wire
	united Numbers
	idle   chan *Computer

	mu   sync.Mutex
	busy map[*Computer]time.Time // since when
	// worked is the time in which any was busy, but for the one since began.
	worked time.Duration
	began  time.Time // when the first of those that are busy was taken
}

// Numbers says what a device names united experts by; a *united.Set does.
type Numbers interface {
	Number(layer, way, group int) (number int, ok bool)
}

// New returns computers on a device, for a model of that shape, whose partials have rows of
// that encoding. The device has the united experts that have numbers; none, if these are nil.
func New(on device.Device, shape *wire.Shape, w tensor.Wire, united Numbers) *Computers {
	return &Computers{device: on, shape: shape, wire: w, united: united, idle: make(chan *Computer, runtime.GOMAXPROCS(0)), busy: map[*Computer]time.Time{}}
}

// Take returns a computer that is busy from now on, until Give.
func (c *Computers) Take(now time.Time) (one *Computer) {
	select {
	case one = <-c.idle:
	default:
		one = &Computer{device: c.device, shape: c.shape, wire: c.wire, united: c.united}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.busy) == 0 {
		c.began = now
	}
	c.busy[one] = now
	return one
}

// Give ends that a computer is busy.
func (c *Computers) Give(one *Computer) {
	c.mu.Lock()
	if delete(c.busy, one); len(c.busy) == 0 {
		c.worked += time.Since(c.began)
	}
	c.mu.Unlock()
	select {
	case c.idle <- one:
	default: // as many as can compute at once are idle already
	}
}

// Worked returns the time in which any computer was busy: two at once count once, so that it tells
// how fast the host is, however much it has to do.
func (c *Computers) Worked(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.busy) == 0 {
		return c.worked
	}
	return c.worked + now.Sub(c.began)
}

// Stuck reports whether a dispatch has been computed for longer than StuckAfter.
func (c *Computers) Stuck(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, since := range c.busy {
		if now.Sub(since) > StuckAfter {
			return true
		}
	}
	return false
}

// UnitError says that a host has no weights for the rows of a function, which another host
// may have.
type UnitError struct {
	Function, Reason string
}

// Error names the function and what is missing.
func (e *UnitError) Error() string { return fmt.Sprintf("function %s: %s", e.Function, e.Reason) }

// Permanent reports whether an error is the dispatch's own, so that no host can compute it.
func Permanent(err error) bool {
	var mismatch *wire.IdentityError
	return errors.As(err, &mismatch) || errors.Is(err, wire.ErrMalformed)
}
