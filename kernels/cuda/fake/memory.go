package fake

import (
	"slices"
	"unsafe"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// Memory is the device's, as kernels see it. What lies outside of an allocation ends
// the context, as on a real device.
type Memory struct {
	blocks []block // by address
	next   cuda.Ptr
	used   int64
}

type block struct {
	at   cuda.Ptr
	data []byte
}

// illegal is how a kernel's access to memory that is not allocated ends.
type illegal struct{ at cuda.Ptr }

// begin is where addresses begin, so that no small number is one.
const begin = cuda.Ptr(0x7f00_0000_0000)

// alloc never gives an address twice, so that what was freed is found.
func (m *Memory) alloc(bytes int64) cuda.Ptr {
	m.next = max(m.next, begin)
	at := m.next
	m.blocks = append(m.blocks, block{at, wordAligned(bytes)})
	m.next += cuda.Ptr(cuda.Aligned(bytes) + cuda.Align)
	m.used += bytes
	return at
}

func (m *Memory) release(p cuda.Ptr) bool {
	i := slices.IndexFunc(m.blocks, func(b block) bool { return b.at == p })
	if i < 0 {
		return false
	}
	m.used -= int64(len(m.blocks[i].data))
	m.blocks = slices.Delete(m.blocks, i, i+1)
	return true
}

// Bytes returns those at an address.
func (m *Memory) Bytes(p cuda.Ptr, n int) []byte {
	for _, b := range m.blocks {
		if from := int64(p) - int64(b.at); p >= b.at && from+int64(n) <= int64(len(b.data)) {
			return b.data[from:][:n:n]
		}
	}
	panic(illegal{p})
}

// View is n elements at an address.
func View[T float32 | uint16 | uint32 | int32 | uint64](m *Memory, p cuda.Ptr, n int) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if int(p)%size != 0 {
		panic(illegal{p})
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(m.Bytes(p, n*size)))), n)
}

// wordAligned is memory for elements of any type.
func wordAligned(bytes int64) []byte {
	words := make([]uint64, (bytes+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), bytes)
}
