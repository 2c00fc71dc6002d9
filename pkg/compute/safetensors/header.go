package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
)

const (
	prefixBytes = 8
	// maxHeader is the reference implementation's limit, in bytes.
	maxHeader = 100_000_000
	// metadataKey is the one header entry that is not a tensor.
	metadataKey = "__metadata__"
)

// entry is one tensor as the header states it. Slices rather than arrays: a
// Go array would silently take too few or too many numbers.
type entry struct {
	DType   *DType   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

// splitHeader cuts data into the JSON header and the tensors' bytes.
func splitHeader(data []byte) (header, body []byte, err error) {
	if len(data) < prefixBytes {
		return nil, nil, fmt.Errorf("%d bytes long, shorter than the %d bytes of the header length: file is truncated", len(data), prefixBytes)
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader {
		return nil, nil, fmt.Errorf("header length at byte 0 is %d, above the limit of %d: not a safetensors file", n, maxHeader)
	}
	rest := data[prefixBytes:]
	if n > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("header of %d bytes ends outside the file of %d bytes: file is truncated", n, len(data))
	}
	return rest[:n], rest[n:], nil
}

// parseHeader reads the JSON header and checks it against the body.
func (f *File) parseHeader() error {
	dec := json.NewDecoder(bytes.NewReader(f.header))
	dec.DisallowUnknownFields()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("header at byte %d is not a JSON object", prefixBytes)
	}
	for dec.More() {
		if err := f.parseEntry(dec); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return jsonError(dec, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("header holds more than one JSON value after byte %d", prefixBytes+dec.InputOffset())
	}
	return f.checkLayout()
}

// parseEntry reads one name and what the header says of it.
func (f *File) parseEntry(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return jsonError(dec, err)
	}
	name, ok := t.(string)
	if !ok {
		return jsonError(dec, fmt.Errorf("%v is not a name", t))
	}
	if name == metadataKey {
		return f.parseMetadata(dec)
	}
	if _, twice := f.tensors[name]; twice {
		return fmt.Errorf("tensor %q is named twice in the header", name)
	}
	var e entry
	if err := dec.Decode(&e); err != nil {
		return fmt.Errorf("tensor %q: %w", name, jsonError(dec, err))
	}
	tensor, err := e.tensor(name, f.body, f.bodyOffset)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	f.tensors[name] = tensor
	f.names = append(f.names, name)
	return nil
}

func (f *File) parseMetadata(dec *json.Decoder) error {
	if f.metadata != nil {
		return fmt.Errorf("%s is given twice in the header", metadataKey)
	}
	f.metadata = map[string]string{}
	if err := dec.Decode(&f.metadata); err != nil {
		return fmt.Errorf("%s: %w", metadataKey, jsonError(dec, err))
	}
	return nil
}

// tensor checks what e says against the body, which begins at byte base of the
// file, and returns the view.
func (e entry) tensor(name string, body []byte, base int64) (Tensor, error) {
	if e.DType == nil || e.Shape == nil || len(e.Offsets) != 2 {
		return Tensor{}, fmt.Errorf("needs dtype, shape and two data_offsets")
	}
	if !e.DType.Known() {
		return Tensor{}, fmt.Errorf("dtype %q is unknown", string(*e.DType))
	}
	size, err := byteLen(*e.DType, e.Shape)
	if err != nil {
		return Tensor{}, err
	}
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin > end || end > uint64(len(body)) {
		return Tensor{}, fmt.Errorf("data_offsets [%d, %d] lie outside the %d bytes of data, which begin at byte %d", begin, end, len(body), base)
	}
	if end-begin != size {
		return Tensor{}, fmt.Errorf("data_offsets [%d, %d] span %d bytes, but %s%v needs %d", begin, end, end-begin, *e.DType, e.Shape, size)
	}
	shape := make([]int, len(e.Shape))
	for i, n := range e.Shape {
		shape[i] = int(n)
	}
	return Tensor{Name: name, DType: *e.DType, Shape: shape, Data: body[begin:end:end], Offset: base + int64(begin)}, nil
}

// byteLen returns the number of bytes of a tensor, refused where it or a dimension
// does not fit an int.
func byteLen(d DType, shape []uint64) (uint64, error) {
	n := uint64(1)
	for _, dim := range shape {
		hi, lo := bits.Mul64(n, dim)
		if hi != 0 || lo > math.MaxInt64/64 || dim > math.MaxInt64/64 {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
		n = lo
	}
	if b, ok := blocks[d]; ok {
		if len(shape) == 0 || shape[len(shape)-1]%uint64(b.elements) != 0 {
			return 0, fmt.Errorf("%s%v: rows are no multiple of %d elements", d, shape, b.elements)
		}
		return n / uint64(b.elements) * uint64(b.bytes), nil
	}
	total := n * uint64(elementBits[d])
	if total%8 != 0 {
		return 0, fmt.Errorf("%s%v does not fill whole bytes", d, shape)
	}
	return total / 8, nil
}

// checkLayout puts the names in file order and refuses overlaps and holes: the
// tensors must cover the data exactly, as the reference implementation wants.
func (f *File) checkLayout() error {
	slices.SortFunc(f.names, func(a, b string) int {
		x, y := f.tensors[a], f.tensors[b]
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(len(x.Data), len(y.Data)), cmp.Compare(a, b))
	})
	at := f.bodyOffset
	for _, name := range f.names {
		t := f.tensors[name]
		if t.Offset < at {
			return fmt.Errorf("tensor %q at byte %d overlaps the tensor before it, which ends at byte %d", name, t.Offset, at)
		}
		if t.Offset > at {
			return fmt.Errorf("%d bytes before tensor %q, from byte %d, belong to no tensor", t.Offset-at, name, at)
		}
		at += int64(len(t.Data))
	}
	if end := f.size; at != end {
		return fmt.Errorf("%d bytes at the end, from byte %d, belong to no tensor", end-at, at)
	}
	return nil
}

// jsonError says where in the file the header's JSON went wrong.
func jsonError(dec *json.Decoder, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading the header's JSON near byte %d: %w", prefixBytes+dec.InputOffset(), err)
}
