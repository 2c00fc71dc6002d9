package bench

import (
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// timelessGPU is a device that takes no time and computes nothing: what is left is what the host
// takes. Its memory cannot be read; Out, if set, says what copies bring back from it.
type timelessGPU struct {
	About cuda.Info
	Out   func(to []byte)

	next atomic.Uint64
}

var _ cuda.Driver = (*timelessGPU)(nil)

// Info says what the device is.
func (i *timelessGPU) Info() cuda.Info { return i.About }

// Free is all of it.
func (i *timelessGPU) Free() (int64, error) { return i.About.Memory, nil }

// Alloc gives addresses that nobody else has.
func (i *timelessGPU) Alloc(bytes int64) (cuda.Ptr, error) {
	size := uint64(cuda.Aligned(bytes) + cuda.Align)
	return 1<<40 + cuda.Ptr(i.next.Add(size)-size), nil
}

// Release frees nothing: there is no memory.
func (i *timelessGPU) Release(cuda.Ptr) error { return nil }

// Pin returns host memory.
func (i *timelessGPU) Pin(bytes int64) ([]byte, error) { return make([]byte, bytes), nil }

// Unpin leaves it to the collector.
func (i *timelessGPU) Unpin([]byte) error { return nil }

// NewStream returns one that is always done.
func (i *timelessGPU) NewStream() (cuda.Stream, error) { return instantStream{i}, nil }

// NewEvent returns one that has always passed.
func (i *timelessGPU) NewEvent() (cuda.Event, error) { return instantEvent{}, nil }

// Load takes any image.
func (i *timelessGPU) Load([]byte) (cuda.Module, error) { return instantModule{}, nil }

// Close ends nothing.
func (i *timelessGPU) Close() error { return nil }

type instantModule struct{}

func (instantModule) Kernel(name string, _ int) (cuda.Kernel, error) { return instantKernel(name), nil }

type instantKernel string

func (k instantKernel) Name() string { return string(k) }

type instantStream struct{ of *timelessGPU }

func (instantStream) CopyIn(cuda.Ptr, []byte) error { return nil }

func (s instantStream) CopyOut(to []byte, _ cuda.Ptr) error {
	if s.of.Out != nil {
		s.of.Out(to)
	}
	return nil
}

func (instantStream) Launch(*cuda.Launch) error { return nil }

func (instantStream) Capture(give func() error) (cuda.Graph, error) { return instantEvent{}, give() }

func (instantStream) Run(cuda.Graph) error { return nil }

func (instantStream) Record(cuda.Event) error { return nil }

func (instantStream) Close() error { return nil }

type instantEvent struct{}

func (instantEvent) Wait() error { return nil }

func (instantEvent) Poll(time.Duration) (bool, error) { return true, nil }

func (instantEvent) Close() error { return nil }
