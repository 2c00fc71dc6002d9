package gguf

import (
	"encoding/binary"
	"fmt"
)

// reader takes numbers and strings from the beginning of data. After the first error it
// returns zeros.
type reader struct {
	data   []byte
	at     int
	walked int // strings and arrays in arrays
	err    error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// take returns the next n bytes, nil after an error.
func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.data)-r.at) {
		r.fail("%d bytes are wanted at byte %d of %d: file is truncated or damaged", n, r.at, len(r.data))
	}
	if r.err != nil {
		return nil
	}
	b := r.data[r.at:][:n]
	r.at += int(n)
	return b
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// name returns a text of 1 to maxName bytes with its length before it.
func (r *reader) name() string {
	at := r.at
	n := r.u64()
	if r.err == nil && (n == 0 || n > maxName) {
		r.fail("the name at byte %d has %d bytes, not 1 to %d", at, n, maxName)
	}
	return string(r.take(n))
}

// The types of values.
const (
	kindU8 = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindText
	kindArray
	kindU64
	kindI64
	kindF64
)

// sizes are those of values of a fixed size, in bytes.
var sizes = map[uint32]uint64{
	kindU8: 1, kindI8: 1, kindU16: 2, kindI16: 2, kindU32: 4, kindI32: 4, kindF32: 4, kindBool: 1, kindU64: 8, kindI64: 8, kindF64: 8,
}

// value returns a string or, of a whole number, a uint64.
func (r *reader) value(kind uint32) any {
	if kind == kindText {
		return r.name()
	}
	var whole [8]byte
	copy(whole[:], r.take(sizes[kind]))
	return binary.LittleEndian.Uint64(whole[:])
}

// skip passes over a value, whatever its size, without a copy of it.
func (r *reader) skip(kind uint32) {
	switch size, ok := sizes[kind]; {
	case ok:
		r.take(size)
	case kind == kindText:
		r.take(r.u64())
	case kind == kindArray:
		r.skipArray(1)
	default:
		r.fail("the value at byte %d is of type %d, which GGUF does not have", r.at, kind)
	}
}

// skipArray passes over an array, which may have arrays.
func (r *reader) skipArray(depth int) {
	kind, n := r.u32(), r.u64()
	if size, ok := sizes[kind]; ok {
		if n > uint64(len(r.data)) {
			r.fail("the array that ends at byte %d has %d values: file is damaged", r.at, n)
		}
		r.take(n * size)
		return
	}
	if kind != kindText && (kind != kindArray || depth == maxDepth) {
		r.fail("the array at byte %d is of type %d, or too deep", r.at, kind)
	}
	for ; n > 0 && r.err == nil; n-- {
		if r.walked++; r.walked > maxWalked {
			r.fail("more than %d strings and arrays are in arrays", maxWalked)
		}
		if kind == kindText {
			r.take(r.u64())
		} else {
			r.skipArray(depth + 1)
		}
	}
}
