package safetensors

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/switchyard/switchyard/kernels/pool"
)

// mappings are the files that are mapped, in the order of their addresses. Loads look each panel of a matrix up: they wait
// for nobody, since who maps and unmaps makes another slice.
var mappings struct {
	change sync.Mutex
	all    atomic.Pointer[[]mapping]
}

// mapping is a file that stays open as long as it is mapped.
type mapping struct {
	from uintptr
	size int
	file *os.File
}

func (m mapping) has(address uintptr) bool {
	return address >= m.from && address-m.from < uintptr(m.size)
}

func mapped() []mapping {
	if all := mappings.all.Load(); all != nil {
		return *all
	}
	return nil
}

// search returns where in all the mapping is that begins last of those that do not begin behind address, plus one.
func search(all []mapping, address uintptr) int {
	return sort.Search(len(all), func(i int) bool { return all[i].from > address })
}

func addressOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// note has faults in a file's mapping told by its path, until the returned function has unmapped and closed it.
func note(file *os.File, data []byte, unmap func() error) func() error {
	from := addressOf(data)
	changeMappings(func(all []mapping) []mapping {
		return slices.Insert(all, search(all, from), mapping{from, len(data), file})
	})
	return func() error {
		changeMappings(func(all []mapping) []mapping { // before another mapping may get the address
			return slices.DeleteFunc(all, func(m mapping) bool { return m.from == from })
		})
		return errors.Join(unmap(), file.Close())
	}
}

// changeMappings has to return what is mapped from then on, of a copy.
func changeMappings(to func(all []mapping) []mapping) {
	mappings.change.Lock()
	defer mappings.change.Unlock()
	all := to(slices.Clone(mapped()))
	mappings.all.Store(&all)
}

// mappedAt returns the file whose mapping has the address, and its place there; nil: none has.
func mappedAt(address uintptr) (file *os.File, at int64) {
	all := mapped()
	if i := search(all, address); i > 0 && all[i-1].has(address) {
		return all[i-1].file, int64(address - all[i-1].from)
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

// Shared returns a pool's Run, or the like, for pieces of what Guarded calls, which read mapped files on other goroutines.
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
