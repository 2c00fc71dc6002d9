//go:build cuda

package real

/*
#cgo LDFLAGS: -ldl
#include <cuda.h>
#include <stdlib.h>
const char *switchyard_cuda_load(const char *library);
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/switchyard/switchyard/kernels/cuda"
)

const library = "libcuda.so.1"

// load finds the driver, once, and asks it in earnest whether it works.
var load = sync.OnceValue(func() error {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	if why := C.switchyard_cuda_load(name); why != nil {
		return &cuda.NoDriverError{Why: C.GoString(why)}
	}
	if code := C.cuInit(0); code != 0 {
		return &cuda.NoDriverError{Why: fail("cuInit", int(code)).Error()}
	}
	return nil
})

// Open takes the GPU of an index, as the driver counts them.
func Open(index int) (cuda.Driver, error) {
	if err := load(); err != nil {
		return nil, err
	}
	if v := cu.Version(); v < cuda.MinDriver {
		return nil, &cuda.OldDriverError{Have: v, Need: cuda.MinDriver}
	}
	count, err := cu.NumDevices()
	if err != nil && code(err) != noDevice {
		return nil, told("cuDeviceGetCount", err)
	}
	if index < 0 || index >= count {
		return nil, &cuda.IndexError{Index: index, Count: count}
	}
	dev, err := cu.GetDevice(index)
	if err != nil {
		return nil, told("cuDeviceGet", err)
	}
	info, err := describe(index, dev)
	if err != nil {
		return nil, err
	}
	return retain(dev, info)
}

const noDevice = 100

// sharedPerBlock is CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, for which
// package cu has no name.
const sharedPerBlock cu.DeviceAttribute = 97

func describe(index int, dev cu.Device) (i cuda.Info, err error) {
	name, nameErr := dev.Name()
	memory, memoryErr := dev.TotalMem()
	attributes := make([]int, 7)
	errs := []error{told("cuDeviceGetName", nameErr), told("cuDeviceTotalMem", memoryErr)}
	for n, a := range []cu.DeviceAttribute{
		cu.ComputeCapabilityMajor, cu.ComputeCapabilityMinor, cu.MultiprocessorCount, sharedPerBlock, cu.PciDomainID, cu.PciBusID, cu.PciDeviceID,
	} {
		var err error
		attributes[n], err = dev.Attribute(a)
		errs = append(errs, told("cuDeviceGetAttribute", err))
	}
	return cuda.Info{
		Index: index, Name: name, Memory: memory, Driver: cu.Version(),
		Arch: cuda.Arch{Major: attributes[0], Minor: attributes[1]}, Processors: attributes[2], Shared: attributes[3],
		PCI: fmt.Sprintf("%04x:%02x:%02x.0", attributes[4], attributes[5], attributes[6]),
	}, errors.Join(errs...)
}

// retain makes the device's context this process's.
func retain(dev cu.Device, info cuda.Info) (cuda.Driver, error) {
	ctx, err := dev.RetainPrimaryCtx()
	if errors.Is(told("cuDevicePrimaryCtxRetain", err), cuda.ErrMemory) {
		return nil, fmt.Errorf("making a context on %s: %w", info.Name, told("cuDevicePrimaryCtxRetain", err))
	}
	if err != nil {
		return nil, told("cuDevicePrimaryCtxRetain", err)
	}
	return &driver{dev: dev, ctx: ctx, info: info, pinned: map[*byte]unsafe.Pointer{}}, nil
}

// on runs a call with the context, which belongs to threads and not to goroutines.
func (d *driver) on(name string, call func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(d.ctx); err != nil {
		return told("cuCtxSetCurrent", err)
	}
	return told(name, call())
}

// told is what package cu makes of the driver's answer, as an error of package cuda.
func told(call string, err error) error {
	if err == nil {
		return nil
	}
	return fail(call, code(err))
}

// code returns a CUresult: cu's type for it has no name outside.
func code(err error) int {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return int(v.Int())
	}
	return cuda.CodeUnknown
}

// answered is the same for calls that cu does not have.
func answered(call string, result C.CUresult) error {
	if result == 0 {
		return nil
	}
	return fail(call, int(result))
}

func fail(call string, code int) error { return &cuda.Error{Call: call, Code: code} }
