package safetensors

import (
	"errors"
	"fmt"
	"os"
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
	file *os.File
	size int
}

func addressOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// note has faults in a file's mapping told by its path, until the returned function has unmapped and closed it.
func note(file *os.File, data []byte, unmap func() error) func() error {
	mappings.Lock()
	defer mappings.Unlock()
	mappings.all[addressOf(data)] = mapping{file, len(data)}
	return func() error {
		mappings.Lock()
		delete(mappings.all, addressOf(data)) // before another mapping may get the address
		mappings.Unlock()
		return errors.Join(unmap(), file.Close())
	}
}

// mappedAt is the file whose mapping has the address, and its place there; nil: none has.
func mappedAt(address uintptr) (file *os.File, at int64) {
	mappings.Lock()
	defer mappings.Unlock()
	for from, m := range mappings.all {
		if address >= from && address-from < uintptr(m.size) {
			return m.file, int64(address - from)
		}
	}
	return nil, 0
}

// Near brings a part of a file's mapping into a buffer that is as large at least, by reading the file: the system takes
// longer to map pages that nobody has touched yet than to copy them. It calls cold before it waits for a disk. What is in
// memory anyway is returned as it is, and so is what cannot be read: who touches it is told why.
func Near(buffer, view []byte, cold func()) []byte {
	if len(view) == 0 {
		return view
	}
	file, at := mappedAt(addressOf(view))
	if file == nil {
		return view
	}
	buffer = buffer[:len(view)]
	if readCached(file, buffer, at) {
		return buffer
	}
	cold()
	if _, err := file.ReadAt(buffer, at); err != nil {
		return view
	}
	return buffer
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
		var file *os.File
		was := raised
		if of, ok := raised.(*pool.Panic); ok { // of Shared
			was = of.Value
		}
		fault, ok := was.(interface {
			runtime.Error
			Addr() uintptr
		})
		if ok {
			file, _ = mappedAt(fault.Addr())
		}
		if file == nil {
			panic(raised)
		}
		err = fmt.Errorf("%s cannot be read any more: it was cut or written over while it was used, or its disk fails", file.Name())
	}()
	return read()
}
