//go:build emulate

package emulate

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdint.h>
// #include <stdlib.h>
//
// typedef const char *(*launch)(int, const unsigned *, const unsigned *, unsigned, const uint64_t *, unsigned);
// static const char *call_launch(void *f, int i, const unsigned *grid, const unsigned *shape, unsigned shared,
//                                const uint64_t *args, unsigned schedule) {
//   return ((launch)f)(i, grid, shape, shared, args, schedule);
// }
// static const char *call_name(void *f, int i) { return ((const char *(*)(int))f)(i); }
// static int call_parameters(void *f, int i) { return ((int (*)(int))f)(i); }
// static unsigned long long call_conflicts(void *f) { return ((unsigned long long (*)(void))f)(); }
// static void *call_alloc(void *f, size_t n) { return ((void *(*)(size_t))f)(n); }
// static void call_free(void *f, void *p, size_t n) { ((void (*)(void *, size_t))f)(p, n); }
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// Library is all kernels. It is safe for concurrent use: launches run one after the other.
type Library struct {
	kernels map[string]kernel

	launch, conflicts, alloc, free unsafe.Pointer
}

type kernel struct{ number, parameters int }

// Open compiles the kernels, if need be, and opens them once for the process.
var Open = sync.OnceValues(func() (*Library, error) {
	file, err := build()
	if err != nil {
		return nil, err
	}
	path := C.CString(file)
	defer C.free(unsafe.Pointer(path))
	handle := C.dlopen(path, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, errors.New("opening the emulator: " + C.GoString(C.dlerror()))
	}
	l := &Library{kernels: map[string]kernel{}}
	l.launch, l.conflicts = symbol(handle, "emulate_launch"), symbol(handle, "emulate_conflicts")
	l.alloc, l.free = symbol(handle, "emulate_alloc"), symbol(handle, "emulate_free")
	name, parameters := symbol(handle, "emulate_name"), symbol(handle, "emulate_parameters")
	for i := C.int(0); ; i++ {
		s := C.call_name(name, i)
		if s == nil {
			return l, nil
		}
		l.kernels[C.GoString(s)] = kernel{int(i), int(C.call_parameters(parameters, i))}
	}
})

// symbol returns a function that library.cc has.
func symbol(handle unsafe.Pointer, name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(handle, s)
}

// Kernels returns how many parameters each kernel has.
func (l *Library) Kernels() map[string]int {
	all := map[string]int{}
	for name, k := range l.kernels {
		all[name] = k.parameters
	}
	return all
}

// Launch is one start of a kernel. Args are as cuda.Launch has them: an address (Address), an
// integer, or a float32's bits, in eight bytes each.
type Launch struct {
	Kernel      string
	Grid, Block [3]uint32
	Shared      uint32
	Args        []uint64
	// Schedule is the order in which threads have turns: 0 as numbered, 1 backwards,
	// others any, by that seed.
	Schedule uint32
}

// Run returns when the kernel has.
func (l *Library) Run(s *Launch) error {
	k, ok := l.kernels[s.Kernel]
	if !ok || k.parameters != len(s.Args) {
		return fmt.Errorf("kernel %s with %d parameters: there are %d kernels, and this one has %d", s.Kernel, len(s.Args), len(l.kernels), k.parameters)
	}
	fault := C.call_launch(l.launch, C.int(k.number), (*C.uint)(&s.Grid[0]), (*C.uint)(&s.Block[0]), C.uint(s.Shared),
		(*C.uint64_t)(unsafe.SliceData(s.Args)), C.uint(s.Schedule))
	if fault != nil {
		return fmt.Errorf("kernel %s: %s", s.Kernel, C.GoString(fault))
	}
	return nil
}

// Conflicts returns how often, in the last launch, rows that matrices are loaded from shared banks.
func (l *Library) Conflicts() uint64 { return uint64(C.call_conflicts(l.conflicts)) }

// Alloc returns device memory that is no number yet. A touch beyond it ends the process.
func (l *Library) Alloc(bytes int) []byte {
	return unsafe.Slice((*byte)(C.call_alloc(l.alloc, C.size_t(max(bytes, 1)))), max(bytes, 1))[:bytes]
}

// Free gives back what Alloc has returned.
func (l *Library) Free(b []byte) {
	C.call_free(l.free, unsafe.Pointer(unsafe.SliceData(b)), C.size_t(max(len(b), 1)))
}

// Address is b's for a kernel; 0 of none.
func Address[T any](b []T) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
