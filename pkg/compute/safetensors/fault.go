package safetensors

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/switchyard/switchyard/kernels/pool"
)

// mappings are the files that are mapped, by the address of their first byte.
var mappings = struct {
	sync.Mutex
	all map[uintptr]mapping
}{all: map[uintptr]mapping{}}

type mapping struct {
	path string
	size int
}

func addressOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// note has faults in a mapping told by its path, until the returned function has unmapped it.
func note(path string, data []byte, unmap func() error) func() error {
	mappings.Lock()
	defer mappings.Unlock()
	mappings.all[addressOf(data)] = mapping{path, len(data)}
	return func() error {
		mappings.Lock()
		delete(mappings.all, addressOf(data)) // before another mapping may get the address
		mappings.Unlock()
		return unmap()
	}
}

// mappedAt is the file whose mapping has the address, or empty.
func mappedAt(address uintptr) string {
	mappings.Lock()
	defer mappings.Unlock()
	for from, m := range mappings.all {
		if address >= from && address-from < uintptr(m.size) {
			return m.path
		}
	}
	return ""
}

// Shared is a pool's Run, or the like, for pieces of what Guarded calls, which read mapped files on other goroutines.
func Shared(run func(n int, f func(i int))) func(n int, f func(i int)) {
	return func(n int, f func(i int)) {
		run(n, func(i int) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			f(i)
		})
	}
}

// Guarded calls read, which reads views of mapped files on the caller's goroutine alone, or by Shared. Where the system
// cannot bring a page, because the file was cut or its disk fails, the error names the file; without the guard
// the process would end.
func Guarded(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		raised := recover()
		if raised == nil {
			return
		}
		path := ""
		was := raised
		if of, ok := raised.(*pool.Panic); ok { // of Shared
			was = of.Value
		}
		fault, ok := was.(interface {
			runtime.Error
			Addr() uintptr
		})
		if ok {
			path = mappedAt(fault.Addr())
		}
		if path == "" {
			panic(raised)
		}
		err = fmt.Errorf("%s cannot be read any more: it was cut or written over while it was used, or its disk fails", path)
	}()
	return read()
}
