//go:build emulate

package emulate

import (
	"errors"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// Driver is a device whose kernels are emulated. Whatever a stream is given is done
// when it is given. Package fake has what else makes a device hard to use.
type Driver struct {
	l      *Library
	mu     sync.Mutex
	memory map[cuda.Ptr][]byte
}

var _ cuda.Driver = (*Driver)(nil)

// NewDriver returns a device of Hopper's limits, but for its size.
func NewDriver() (*Driver, error) {
	l, err := Open()
	return &Driver{l: l, memory: map[cuda.Ptr][]byte{}}, err
}

// Info says that it is an emulator.
func (d *Driver) Info() cuda.Info {
	return cuda.Info{Name: "emulated GPU", Arch: cuda.Arch{Major: 9}, Memory: 1 << 30, Shared: mostShared, Processors: 1, Driver: 12090}
}

// Free returns as much as there ever is.
func (d *Driver) Free() (int64, error) { return d.Info().Memory, nil }

// Alloc takes memory that is no number yet.
func (d *Driver) Alloc(bytes int64) (cuda.Ptr, error) {
	b := d.l.Alloc(int(bytes))
	d.mu.Lock()
	defer d.mu.Unlock()
	p := cuda.Ptr(Address(b))
	d.memory[p] = b
	return p, nil
}

// Release gives it back.
func (d *Driver) Release(p cuda.Ptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.l.Free(d.memory[p])
	delete(d.memory, p)
	return nil
}

// Pin returns any memory: copies are made at once.
func (d *Driver) Pin(bytes int64) ([]byte, error) { return make([]byte, bytes), nil }

// Unpin does nothing.
func (d *Driver) Unpin([]byte) error { return nil }

// NewStream returns a stream.
func (d *Driver) NewStream() (cuda.Stream, error) { return &stream{d: d}, nil }

// NewEvent returns an event that has always passed.
func (d *Driver) NewEvent() (cuda.Event, error) { return passed{}, nil }

// Load takes anything for the image of all kernels.
func (d *Driver) Load([]byte) (cuda.Module, error) { return module{d.l}, nil }

// Close gives all memory back.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, b := range d.memory {
		d.l.Free(b)
		delete(d.memory, p)
	}
	return nil
}

// mostShared is a Hopper block's shared memory.
const mostShared = 227 << 10

type module struct{ l *Library }

// Kernel finds one of all kernels; it is an error of code CodeNotFound if there is none
// of the name, or if it would use more shared memory than a block has.
func (m module) Kernel(name string, shared int) (cuda.Kernel, error) {
	if _, ok := m.l.kernels[name]; !ok || shared > mostShared {
		return nil, &cuda.Error{Call: "cuModuleGetFunction of " + name, Code: cuda.CodeNotFound}
	}
	return function(name), nil
}

type function string

func (f function) Name() string { return string(f) }

type passed struct{}

// Wait returns at once: streams end what they are given before they return.
func (passed) Wait() error { return nil }

func (passed) Poll(time.Duration) (bool, error) { return true, nil }

func (passed) Close() error { return nil }

type stream struct {
	d        *Driver
	captures *graph // or nil
}

type graph []Launch

// Capture keeps launches instead of running them.
func (s *stream) Capture(give func() error) (cuda.Graph, error) {
	g := &graph{}
	s.captures = g
	err := give()
	s.captures = nil
	return g, err
}

func (s *stream) Run(g cuda.Graph) error {
	for _, l := range *g.(*graph) { //nolint:errcheck // a driver's graphs are its own
		if err := s.run(&l); err != nil {
			return err
		}
	}
	return nil
}

func (g *graph) Close() error { return nil }

// CopyIn copies before it returns. An address that is none ends the process.
func (s *stream) CopyIn(to cuda.Ptr, from []byte) error {
	copy(unsafe.Slice((*byte)(pointer(to)), len(from)), from)
	return nil
}

// CopyOut copies before it returns. An address that is none ends the process.
func (s *stream) CopyOut(to []byte, from cuda.Ptr) error {
	copy(to, unsafe.Slice((*byte)(pointer(from)), len(to)))
	return nil
}

// pointer returns a device address, which here is the process's own.
func pointer(p cuda.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Launch runs the kernel to its end. What it does wrong is an error of code
// CodeLaunchFailed, with the emulator's own word behind it.
func (s *stream) Launch(l *cuda.Launch) error {
	now := Launch{Kernel: l.Kernel.Name(), Grid: l.Grid, Block: l.Block, Shared: l.Shared, Args: l.Args}
	if s.captures != nil {
		now.Args = slices.Clone(now.Args)
		*s.captures = append(*s.captures, now)
		return nil
	}
	return s.run(&now)
}

func (s *stream) run(l *Launch) error {
	if err := s.d.l.Run(l); err != nil {
		return errors.Join(&cuda.Error{Call: "cuLaunchKernel", Code: cuda.CodeLaunchFailed}, err)
	}
	return nil
}

func (s *stream) Record(cuda.Event) error { return nil }

func (s *stream) Close() error { return nil }
