package cuda

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

type gateKernels struct {
	logits [gateFormats]logitKernel
	route  cuda.Kernel
}

type logitKernel struct {
	kernel cuda.Kernel
	shared uint32
}

// A block of a kernel of logits has so many experts, rows and threads; it keeps pieces of so
// many columns in shared memory, with a gap between rows of weights.
const (
	logitExperts = 32
	logitRows    = 16
	logitThreads = 128
	logitStages  = 4
	logitColumns = 64
	logitGap     = 16
)

func (f gateFormat) sharedBytes() int {
	return logitStages * (logitExperts*(logitColumns*f.bytes()+logitGap) + logitRows*logitColumns*4)
}

// routeShared returns what choosing among so many experts takes of it.
func routeShared(experts int) uint32 { return uint32(8 * experts) }

// openGateKernels finds them in the images that fit the GPU.
func openGateKernels(d cuda.Driver, images cuda.Images, of *model.Model) (k gateKernels, err error) {
	m, err := images.Open(d)
	if err != nil {
		return k, err
	}
	gpu := d.Info()
	for f := range gateFormats {
		shared := f.sharedBytes()
		if shared > gpu.Shared {
			return k, &cuda.SharedError{Device: gpu.Name, Need: shared, Have: gpu.Shared}
		}
		k.logits[f].shared = uint32(shared)
		if k.logits[f].kernel, err = m.Kernel("route_logits_"+f.String(), shared); err != nil {
			return k, err
		}
	}
	k.route, err = m.Kernel("route", int(routeShared(of.Spec.Experts)))
	return k, err
}

// gateBuffers are the bytes of a lane's memory, on the GPU and pinned.
type gateBuffers struct{ x, logits, chosen int64 }

// gateRows returns how many rows of a model a launch has at most: a lane's of rows takes some 16 MiB.
func gateRows(s *model.Spec) int { return min(max(16<<20/(4*padded(s.Hidden)), leastRows), mostRows) }

func gateBuffersOf(s *model.Spec, rows int) gateBuffers {
	n := int64(rows)
	ids := cuda.Aligned(4 * n * int64(s.TopK))
	return gateBuffers{x: 4 * n * int64(padded(s.Hidden)), logits: 4 * n * int64(s.Experts), chosen: 2 * ids}
}

func (b gateBuffers) bytes() int64 {
	return cuda.Aligned(b.x) + cuda.Aligned(b.logits) + cuda.Aligned(b.chosen)
}

type gateLane struct {
	launcher
	driver cuda.Driver
	done   *waiter
	at     struct{ x, logits, chosen cuda.Ptr }
	in     []byte // pinned: rows, each filled up with zeros
	out    []byte // pinned: chosen experts, and behind them their weights
}

// newGateLane takes all that calls will ever need.
func newGateLane(driver cuda.Driver, a *cuda.Arena, b gateBuffers, h *health) (_ *gateLane, err error) {
	l := &gateLane{driver: driver, launcher: launcher{health: h}}
	defer func() { unmake(l, h, err) }()
	for _, m := range []struct {
		to    *cuda.Ptr
		bytes int64
	}{{&l.at.x, b.x}, {&l.at.logits, b.logits}, {&l.at.chosen, b.chosen}} {
		if *m.to, err = a.Take(m.bytes, "buffers of gates"); err != nil {
			return nil, err
		}
	}
	if l.stream, err = driver.NewStream(); err != nil {
		return nil, fmt.Errorf("making a stream: %w", err)
	}
	if l.done, err = newWaiter(driver, h); err != nil {
		return nil, err
	}
	if l.in, err = driver.Pin(b.x); err == nil {
		clear(l.in)
		l.out, err = driver.Pin(b.chosen)
	}
	if err != nil {
		return nil, fmt.Errorf("pinning memory: %w", err)
	}
	return l, nil
}

func (l *gateLane) close(lost bool) { release(l.driver, l.stream, l.done, lost, l.in, l.out) }
