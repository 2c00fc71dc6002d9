//go:build cuda

package real

// #include <cuda.h>
// #include <stdint.h>
// CUresult switchyard_launch(CUfunction f, const uint32_t *size, uint32_t shared, CUstream s, uint64_t *args, int n);
import "C"

import (
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/switchyard/switchyard/kernels/cuda"
)

type stream struct {
	d *driver
	s cu.Stream
}

// NewStream makes one that the default stream does not hold up.
func (d *driver) NewStream() (cuda.Stream, error) {
	s := &stream{d: d}
	err := d.on("cuStreamCreate", func() (err error) {
		s.s, err = cu.MakeStream(cu.NonBlocking)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// CopyIn queues a copy of len(from) bytes to the device; from must be pinned.
func (s *stream) CopyIn(to cuda.Ptr, from []byte) error {
	return s.d.on("cuMemcpyHtoDAsync", func() error {
		return cu.MemcpyHtoDAsync(cu.DevicePtr(to), unsafe.Pointer(unsafe.SliceData(from)), int64(len(from)), s.s)
	})
}

// CopyOut queues a copy of len(to) bytes from the device; to must be pinned.
func (s *stream) CopyOut(to []byte, from cuda.Ptr) error {
	return s.d.on("cuMemcpyDtoHAsync", func() error {
		return cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(to)), cu.DevicePtr(from), int64(len(to)), s.s)
	})
}

func (s *stream) Launch(l *cuda.Launch) error {
	k := l.Kernel.(*kernel) //nolint:errcheck // a driver's kernels are its own
	size := [6]C.uint32_t{}
	for i := range 3 {
		size[i], size[3+i] = C.uint32_t(l.Grid[i]), C.uint32_t(l.Block[i])
	}
	return s.d.direct("cuLaunchKernel", func() C.CUresult {
		return C.switchyard_launch(k.c(), &size[0], C.uint32_t(l.Shared), s.c(),
			(*C.uint64_t)(unsafe.SliceData(l.Args)), C.int(len(l.Args)))
	})
}

func (s *stream) Record(e cuda.Event) error {
	ev := e.(*event) //nolint:errcheck // a driver's events are its own
	return s.d.on("cuEventRecord", func() error { return ev.e.Record(s.s) })
}

// Close destroys the stream. What is queued is still done.
func (s *stream) Close() error {
	return s.d.on("cuStreamDestroy", s.s.Destroy)
}

type event struct {
	d *driver
	e cu.Event
}

// NewEvent makes one whose waiter sleeps rather than asking again and again.
func (d *driver) NewEvent() (cuda.Event, error) {
	e := &event{d: d}
	err := d.on("cuEventCreate", func() (err error) {
		e.e, err = cu.MakeEvent(cu.BlockingSyncEvent | cu.DisableTiming)
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Wait sleeps until the stream has come to the event; its error may be of anything queued before.
func (e *event) Wait() error { return e.d.on("cuEventSynchronize", e.e.Synchronize) }

// Poll asks at least once.
func (e *event) Poll(most time.Duration) (passed bool, err error) {
	begun := time.Now()
	err = e.d.on("cuEventQuery", func() error {
		for {
			err := e.e.Query()
			if err == nil || code(err) != notReady {
				passed = err == nil
				return err
			}
			if time.Since(begun) >= most {
				return nil
			}
		}
	})
	return passed, err
}

// notReady is what cuEventQuery answers for an event to which the stream has not come.
const notReady = 600

func (e *event) Close() error {
	return e.d.on("cuEventDestroy", func() error { return cu.DestroyEvent(&e.e) })
}
