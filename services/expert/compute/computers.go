package compute

import (
	"runtime"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
)

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

// Worked is the time in which any computer was busy: two at once count once, so that it tells
// how fast the host is, however much it has to do.
func (c *Computers) Worked(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.busy) == 0 {
		return c.worked
	}
	return c.worked + now.Sub(c.began)
}

// Stuck says whether a dispatch has been computed for longer than StuckAfter.
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
