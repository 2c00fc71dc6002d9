package fake

import (
	"maps"
	"sync"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// Kernel computes what a launch asks for. It reads and writes m only.
type Kernel func(m *Memory, l *cuda.Launch)

// Settings of a device.
type Settings struct {
	Info    cuda.Info
	Kernels map[string]Kernel
}

// Device is the fake. It implements cuda.Driver.
type Device struct {
	info   cuda.Info
	Faults *Faults

	mu      sync.Mutex
	changed *sync.Cond
	kernels map[string]Kernel
	memory  Memory
	pinned  []*[]byte
	streams map[*stream]bool
	graphs  graphs
	copied  int64 // bytes, to the device
	lost    error // from then on all calls answer it
	closed  bool
	running sync.WaitGroup
}

var _ cuda.Driver = (*Device)(nil)

// New returns a device. Without an Info it is a small one of the newest kind.
func New(s Settings) *Device {
	if s.Info == (cuda.Info{}) {
		s.Info = cuda.Info{Name: "fake GPU", Arch: cuda.Arch{Major: 9}, Memory: 64 << 20, Shared: 227 << 10, Processors: 4, Driver: 12090}
	}
	d := &Device{info: s.Info, kernels: maps.Clone(s.Kernels), streams: map[*stream]bool{}}
	d.changed = sync.NewCond(&d.mu)
	d.Faults = &Faults{d: d}
	return d
}

// Info says what the device is.
func (d *Device) Info() cuda.Info { return d.info }

// Free returns what is not allocated, here or by others.
func (d *Device) Free() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost != nil {
		return 0, d.lost
	}
	return d.free(), nil
}

func (d *Device) free() int64 { return d.info.Memory - d.memory.used - d.Faults.taken }

// Alloc allocates.
func (d *Device) Alloc(bytes int64) (cuda.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ready("cuMemAlloc"); err != nil {
		return 0, err
	}
	switch {
	case bytes <= 0:
		return 0, fault("cuMemAlloc", cuda.CodeInvalidValue)
	case bytes > d.free() || d.Faults.noAlloc:
		return 0, fault("cuMemAlloc", cuda.CodeOutOfMemory)
	}
	return d.memory.alloc(bytes), nil
}

// Release frees what Alloc returned.
func (d *Device) Release(p cuda.Ptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ready("cuMemFree"); err != nil {
		return err
	}
	if !d.memory.release(p) {
		return fault("cuMemFree", cuda.CodeInvalidValue)
	}
	return nil
}

// Pin returns host memory.
func (d *Device) Pin(bytes int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ready("cuMemHostAlloc"); err != nil {
		return nil, err
	}
	b := wordAligned(bytes)
	d.pinned = append(d.pinned, &b)
	return b, nil
}

// Unpin takes it back.
func (d *Device) Unpin(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, p := range d.pinned {
		if len(b) > 0 && &(*p)[0] == &b[0] {
			d.pinned = append(d.pinned[:i], d.pinned[i+1:]...)
			return d.lost
		}
	}
	return fault("cuMemFreeHost", cuda.CodeInvalidValue)
}

// Load takes any image that names a kernel of the device.
func (d *Device) Load(image []byte) (cuda.Module, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ready("cuModuleLoadData"); err != nil {
		return nil, err
	}
	switch {
	case d.Faults.image != 0:
		return nil, fault("cuModuleLoadData", d.Faults.image)
	case len(image) == 0:
		return nil, fault("cuModuleLoadData", cuda.CodeInvalidValue)
	}
	return module{d}, nil
}

type module struct{ d *Device }

// Kernel finds one of the device's kernels. Its errors are those of the driver's calls: CodeNotFound for
// an unknown name, CodeInvalidValue for more bytes of shared memory than Info.Shared.
func (m module) Kernel(name string, shared int) (cuda.Kernel, error) {
	if m.d.kernels[name] == nil {
		return nil, fault("cuModuleGetFunction", cuda.CodeNotFound)
	}
	if shared > m.d.info.Shared {
		return nil, fault("cuFuncSetAttribute", cuda.CodeInvalidValue)
	}
	return kernel(name), nil
}

type kernel string

func (k kernel) Name() string { return string(k) }

// Close ends the streams, whatever they wait for.
func (d *Device) Close() error {
	d.mu.Lock()
	d.closed = true
	if d.lost == nil {
		d.lost = fault("cuCtxSynchronize", 4)
	}
	d.changed.Broadcast()
	d.mu.Unlock()
	d.running.Wait()
	return nil
}

// Left returns what was not given back: bytes on the device, pinned bytes, streams.
func (d *Device) Left() (device, pinned int64, streams int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.pinned {
		pinned += int64(len(*b))
	}
	return d.memory.used, pinned, len(d.streams)
}

// Copied returns how many bytes were copied to the device.
func (d *Device) Copied() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copied
}

func fault(call string, code int) error { return &cuda.Error{Call: call, Code: code} }
