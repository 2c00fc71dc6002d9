package cpu

import "unsafe"

// Space is memory for the weights of some matrices, one after the other. Matrices live no longer than what they are
// packed into next, so that only who knows that nothing computes with them may Reset it.
type Space struct{ all, free []byte }

// spaceParts are more arrays than an expert's matrices have; each begins with a cache line.
const spaceParts = 16

// NewSpace returns a space for matrices that take so many bytes.
func NewSpace(bytes int64) *Space {
	s := &Space{all: aligned[byte](int(bytes) + spaceParts*cacheLine)}
	s.Reset()
	return s
}

// Populate has the system give the memory in pieces for run, each for one thread: who packs into pages that nobody has
// touched has two threads clear the same large page, and wait for each other.
func (s *Space) Populate(run func(n int, f func(i int))) {
	if len(s.all) < hugePage {
		return
	}
	first := unsafe.Pointer(unsafe.SliceData(s.all))
	skip := (hugePage - int(uintptr(first)%hugePage)) % hugePage
	pieces := 1 + parts(len(s.all)-skip, hugePage)
	run(pieces, func(i int) {
		from, to := max(0, skip+(i-1)*hugePage), min(len(s.all), skip+i*hugePage)
		if from < to {
			populate(unsafe.Pointer(&s.all[from]), to-from)
		}
	})
}

// Bytes returns what it was made for, as budgets count matrices. It takes 16 cache lines more, in which they begin.
func (s *Space) Bytes() int64 { return int64(len(s.all)) - spaceParts*cacheLine }

// Left returns how many of Bytes no matrix has, 0 or less when all are taken.
func (s *Space) Left() int64 { return int64(len(s.free)) - spaceParts*cacheLine }

// Reset makes room for other matrices, in the memory of those that are there.
func (s *Space) Reset() { s.free = s.all }

// Buffer is memory for so many bytes, which are zero, as matrices have it.
func Buffer(bytes int) []byte { return aligned[byte](bytes) }

// take returns n values that start at a cache line, of a space or, where that is nil or full, of Go's heap. They may be
// any: the caller writes them all.
func take[T byte | uint16 | float32](s *Space, n int) []T {
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	if s == nil || size == 0 || size > len(s.free) {
		return aligned[T](n)
	}
	out := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s.free))), n)
	s.free = s.free[min(len(s.free), (size+cacheLine-1)&^(cacheLine-1)):]
	return out
}

const cacheLine = 64

// aligned returns n zeros that start at a cache line.
func aligned[T byte | uint16 | float32](n int) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	pad := cacheLine / size
	s := make([]T, n+pad)
	first := unsafe.Pointer(unsafe.SliceData(s))
	if n*size >= hugePage {
		preferHuge(first, n*size)
	}
	skip := (cacheLine - int(uintptr(first)%cacheLine)) % cacheLine / size
	return s[skip : skip+n : skip+n]
}

// hugePage is the size of the pages that large memory is asked to have: the system gives one in the time that it
// takes for a few of the usual 4 KiB, and processors look up fewer addresses.
const hugePage = 2 << 20
