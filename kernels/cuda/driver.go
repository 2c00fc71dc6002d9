package cuda

import (
	"fmt"
	"time"
)

// Driver is one device and this process's context there. It is safe for
// concurrent use; streams and events are used by one goroutine at a time. Errors
// of a driver are *Error.
type Driver interface {
	Info() Info
	// Free is the bytes of the device's memory that no process has.
	Free() (int64, error)
	// Alloc takes device memory. It is for starting: nothing allocates in a step.
	Alloc(bytes int64) (Ptr, error)
	Release(p Ptr) error
	// Pin returns host memory that the device can copy from and to by itself.
	Pin(bytes int64) ([]byte, error)
	// Unpin gives back what Pin has returned, and nothing else.
	Unpin(b []byte) error
	NewStream() (Stream, error)
	NewEvent() (Event, error)
	// Load brings a cubin or PTX to the device. It lives as long as the driver.
	Load(image []byte) (Module, error)
	// Close ends the context, and with it all that was made in it.
	Close() error
}

// Stream does what it is given behind its callers, in order. Memory that it is
// given must stay as it is until an event behind that has passed.
type Stream interface {
	// CopyIn and CopyOut copy between the device and pinned memory.
	CopyIn(to Ptr, from []byte) error
	CopyOut(to []byte, from Ptr) error
	Launch(l *Launch) error
	// Capture makes a graph of the launches that give makes on this stream, none of which
	// begins. Meanwhile nothing but launches may be asked of the stream, and nothing of
	// the driver by the same goroutine. Whatever goes wrong, of give too, the stream is
	// as it was before.
	Capture(give func() error) (Graph, error)
	// Run starts the launches of a graph that was captured on this stream, in order.
	Run(g Graph) error
	// Record puts an event behind everything given so far.
	Record(e Event) error
	Close() error
}

// Graph is launches that a device is given at once. It keeps their parameters, and what
// those point to is read when it runs.
type Graph interface {
	// Close gives it back. No run of it may be under way.
	Close() error
}

// Event tells when a stream has come to it.
type Event interface {
	// Wait sleeps until the stream has passed the last Record; without one it
	// returns at once. What went wrong on the device meanwhile is its error.
	Wait() error
	// Poll asks again and again, for so long at most, whether the stream has passed the
	// last Record. That costs a processor, and less time than to be woken.
	Poll(most time.Duration) (passed bool, err error)
	Close() error
}

// Module is an image's kernels.
type Module interface {
	// Kernel finds a kernel and lets it use so many bytes of dynamic shared memory.
	Kernel(name string, shared int) (Kernel, error)
}

// Kernel is what a driver knows of a kernel.
type Kernel interface{ Name() string }

// Ptr is an address in the device's memory.
type Ptr uint64

// Launch is one start of a kernel. Args are its parameters in order, each in eight
// bytes: a Ptr, an integer, or the bits of a float32 in the low half.
type Launch struct {
	Kernel      Kernel
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	Args        []uint64
}

// Info is what a device is.
type Info struct {
	Index      int
	Name       string
	Arch       Arch
	Memory     int64  // bytes in all
	Shared     int    // bytes of shared memory that a block may have, if it asks for them
	Processors int    // streaming multiprocessors
	Driver     int    // the version of CUDA that the driver speaks: 12090 is 12.9
	PCI        string // address on the bus, by which others know it: 0000:3b:00.0
}

// Arch is a compute capability.
type Arch struct{ Major, Minor int }

// String is like sm_90.
func (a Arch) String() string { return fmt.Sprintf("sm_%d%d", a.Major, a.Minor) }
