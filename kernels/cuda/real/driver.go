//go:build cuda

package real

/*
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>

static CUresult allow_shared(CUfunction f, int bytes) {
	return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}
*/
import "C"

import (
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// driver is one GPU and its primary context.
type driver struct {
	dev  cu.Device
	ctx  cu.CUContext
	info cuda.Info

	mu     sync.Mutex
	pinned map[*byte]unsafe.Pointer
}

func (d *driver) Info() cuda.Info { return d.info }

// Free returns the bytes that no process has, by cuMemGetInfo.
func (d *driver) Free() (free int64, err error) {
	err = d.on("cuMemGetInfo", func() (err error) {
		free, _, err = cu.MemInfo()
		return err
	})
	return free, err
}

// Alloc takes so many bytes by cuMemAlloc; their content is undefined.
func (d *driver) Alloc(bytes int64) (p cuda.Ptr, err error) {
	err = d.on("cuMemAlloc", func() error {
		at, err := cu.MemAlloc(bytes)
		p = cuda.Ptr(at)
		return err
	})
	return p, err
}

func (d *driver) Release(p cuda.Ptr) error {
	return d.on("cuMemFree", func() error { return cu.MemFree(cu.DevicePtr(p)) })
}

// Pin returns memory that any context of this process may copy from.
func (d *driver) Pin(bytes int64) (b []byte, err error) {
	var p unsafe.Pointer
	err = d.direct("cuMemHostAlloc", func() C.CUresult {
		return C.cuMemHostAlloc(&p, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE)
	})
	if err != nil {
		return nil, err
	}
	b = unsafe.Slice((*byte)(p), bytes)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned[&b[0]] = p
	return b, nil
}

// Unpin frees what Pin returned; any other slice is refused with CodeInvalidValue.
func (d *driver) Unpin(b []byte) error {
	d.mu.Lock()
	p, ok := d.pinned[unsafe.SliceData(b)]
	delete(d.pinned, unsafe.SliceData(b))
	d.mu.Unlock()
	if !ok {
		return fail("cuMemFreeHost", cuda.CodeInvalidValue)
	}
	return d.on("cuMemFreeHost", func() error { return cu.MemFreeHost(p) })
}

// Load compiles PTX, or takes a cubin, for this device.
func (d *driver) Load(image []byte) (m cuda.Module, err error) {
	err = d.on("cuModuleLoadData", func() error {
		at, err := cu.LoadData(string(append(image, 0))) // PTX ends with a zero
		m = module{d, at}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

type module struct {
	d *driver
	m cu.Module
}

// kernel is a function of a module.
type kernel struct {
	name string
	f    cu.Function
}

func (k *kernel) Name() string { return k.name }

func (k *kernel) c() C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&k.f)) }

// ownShared is the dynamic shared memory that every kernel may use.
const ownShared = 48 << 10

// Kernel finds a kernel by name. More than ownShared bytes of dynamic shared memory have to be
// allowed kernel by kernel; more than the device has is an error.
func (m module) Kernel(name string, shared int) (cuda.Kernel, error) {
	k := &kernel{name: name}
	err := m.d.on("cuModuleGetFunction", func() (err error) {
		k.f, err = m.m.Function(name)
		return err
	})
	if err == nil && shared > ownShared {
		err = m.d.direct("cuFuncSetAttribute", func() C.CUresult { return C.allow_shared(k.c(), C.int(shared)) })
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (d *driver) Close() error { return told("cuDevicePrimaryCtxRelease", d.dev.ReleasePrimaryCtx()) }

// direct is on for calls that cu does not have.
func (d *driver) direct(name string, call func() C.CUresult) error {
	var result C.CUresult
	if err := d.on(name, func() error { result = call(); return nil }); err != nil {
		return err
	}
	return answered(name, result)
}
