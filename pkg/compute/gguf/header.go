package gguf

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

const (
	magic = "GGUF"
	// maxName bounds names of keys and tensors, in bytes.
	maxName  = 1 << 10
	maxDepth = 4
	// maxWalked bounds the strings and arrays in arrays of a header, which are passed over one by
	// one: those of a vocabulary and its merges are some hundred thousand.
	maxWalked     = 1 << 22
	maxDimensions = 4
	// leastTensor is the fewest bytes that a tensor takes in the header: a length, a
	// letter, a number of dimensions, a type and an offset.
	leastTensor = 8 + 1 + 4 + 4 + 8
	// alignmentKey names what tensors' bytes begin on a multiple of.
	alignmentKey     = "general.alignment"
	defaultAlignment = 32

	architectureKey = "general.architecture"
	splitNoKey      = "split.no"
	splitCountKey   = "split.count"
	splitTensorsKey = "split.tensors.count"
)

// used are the keys of which the values are kept, with the only type that each may have, as in
// llama.cpp. All others are passed over.
var used = map[string]uint32{
	architectureKey: kindText, alignmentKey: kindU32, splitNoKey: kindU16, splitCountKey: kindU16, splitTensorsKey: kindI32,
}

// types are those of tensors that can be read, by GGML's number.
var types = map[uint32]safetensors.DType{
	0: safetensors.F32, 1: safetensors.F16, 30: safetensors.BF16,
	2: safetensors.Q40, 3: safetensors.Q41, 6: safetensors.Q50, 7: safetensors.Q51, 8: safetensors.Q80,
	12: safetensors.Q4K, 13: safetensors.Q5K, 14: safetensors.Q6K,
}

// others are the names of types that cannot, for errors.
var others = map[uint32]string{
	9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
	21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}

// entry is one tensor as the header states it.
type entry struct {
	name   string
	shape  []int
	dtype  safetensors.DType
	bytes  int64
	offset uint64 // in the tensors' bytes
}

func (f *File) parse(r *reader) error {
	tensors, values, err := r.begin()
	if err != nil {
		return err
	}
	for ; values > 0 && r.err == nil; values-- {
		f.readValue(r)
	}
	var entries []entry
	for ; tensors > 0 && r.err == nil; tensors-- {
		entries = append(entries, r.entry())
	}
	if r.err != nil {
		return r.err
	}
	return f.place(r, entries)
}

// begin reads what every file begins with, and bounds the two counts.
func (r *reader) begin() (tensors, values uint64, err error) {
	if start := r.take(4); r.err != nil || string(start) != magic {
		return 0, 0, fmt.Errorf("it does not begin with %q", magic)
	}
	version := r.u32()
	tensors, values = r.u64(), r.u64()
	switch {
	case r.err != nil:
		return 0, 0, r.err
	case version != 2 && version != 3:
		return 0, 0, fmt.Errorf("its version is %#x; 2 and 3 in little endian can be read", version)
	case tensors > uint64(len(r.data))/leastTensor || values > uint64(len(r.data))/leastTensor*2:
		return 0, 0, fmt.Errorf("%d tensors and %d values do not fit a file of %d bytes: it is truncated or damaged", tensors, values, len(r.data))
	}
	return tensors, values, nil
}

func (f *File) readValue(r *reader) {
	at := r.at
	key, kind := r.name(), r.u32()
	want, isUsed := used[key]
	_, twice := f.values[key]
	switch {
	case !isUsed:
		r.skip(kind)
	case twice:
		r.fail("key %q at byte %d is there twice", key, at)
	case kind != want:
		r.fail("key %q at byte %d is of type %d, not %d", key, at, kind, want)
	default:
		f.values[key] = r.value(kind)
	}
}

func (r *reader) entry() (e entry) {
	e.name = r.name()
	n := r.u32()
	if n > maxDimensions {
		r.fail("tensor %q has %d dimensions, at most %d are possible", e.name, n, maxDimensions)
		return e
	}
	count := uint64(1)
	for range n {
		size := r.u64()
		if size == 0 || size > math.MaxInt32 || count > math.MaxInt64/64/size {
			r.fail("tensor %q has a dimension of %d, or is too large", e.name, size)
			return e
		}
		count *= size
		e.shape = append(e.shape, int(size))
	}
	r.typeOf(&e, count)
	e.offset = r.u64()
	slices.Reverse(e.shape)
	return e
}

// typeOf reads a type, which must be known, and rows of which must be whole blocks.
func (r *reader) typeOf(e *entry, count uint64) {
	number := r.u32()
	e.dtype = types[number]
	elements, _ := e.dtype.Block()
	switch {
	case r.err != nil:
	case e.dtype == "":
		r.fail("tensor %q is of type %s; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K can be read",
			e.name, cmp.Or(others[number], fmt.Sprint(number)))
	case elements > 1 && (len(e.shape) == 0 || e.shape[0]%elements != 0):
		r.fail("tensor %q is %s and its rows are no multiple of %d elements", e.name, e.dtype, elements)
	}
	e.bytes = e.dtype.Bytes(int64(count))
}

// place makes views of the tensors, each of which begins on the first multiple of the alignment
// behind the one before.
func (f *File) place(r *reader, entries []entry) error {
	alignment := uint64(defaultAlignment)
	if n, ok := f.values[alignmentKey].(uint64); ok {
		alignment = n
	}
	if alignment == 0 || alignment > 1<<20 || alignment%8 != 0 {
		return fmt.Errorf("%s is %d, no multiple of 8 up to %d", alignmentKey, alignment, 1<<20)
	}
	start := (uint64(r.at) + alignment - 1) / alignment * alignment
	if len(entries) == 0 {
		start = min(start, uint64(len(r.data)))
	}
	if start > uint64(len(r.data)) {
		return fmt.Errorf("the tensors would begin at byte %d of %d: file is truncated", start, len(r.data))
	}
	f.header = r.data[:r.at]
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.name, b.name)) })
	end := uint64(0)
	for _, e := range entries {
		if err := f.add(e, r.data[start:], start, alignment, &end); err != nil {
			return fmt.Errorf("tensor %q: %w", e.name, err)
		}
	}
	return nil
}

// add makes the view of a tensor in body, which begins at byte start of the file; end is
// where the one before ended, and becomes where this one does.
func (f *File) add(e entry, body []byte, start, alignment uint64, end *uint64) error {
	size := uint64(e.bytes)
	switch _, twice := f.tensors[e.name]; {
	case twice:
		return fmt.Errorf("it is listed twice")
	case e.offset != (*end+alignment-1)/alignment*alignment:
		return fmt.Errorf("its offset is %d, not the first multiple of %d from %d on, where the one before ends", e.offset, alignment, *end)
	case e.offset > uint64(len(body)) || size > uint64(len(body))-e.offset:
		return fmt.Errorf("it ends outside of the file, which has %d bytes: file is truncated", start+uint64(len(body)))
	}
	*end = e.offset + size
	f.tensors[e.name] = safetensors.Tensor{
		Name: e.name, DType: e.dtype, Shape: e.shape, Data: body[e.offset:*end:*end], Offset: int64(start + e.offset),
	}
	f.names = append(f.names, e.name)
	return nil
}
