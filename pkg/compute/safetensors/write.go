package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Write writes the tensors in the given order, each with the bytes of its
// Data; Offset is ignored. Data that does not fit dtype and shape is refused.
// The header is padded so that the data begins on a multiple of eight bytes.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	for _, t := range tensors {
		if err := t.full(); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	if err := WriteHeader(w, tensors, metadata); err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("writing tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// WriteHeader writes all of a file but the tensors' bytes, which must follow in
// the same order. The tensors need no Data yet: a large file can be filled in
// place.
func WriteHeader(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	header, err := encodeHeader(tensors, metadata)
	if err != nil {
		return err
	}
	prefix := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	for _, part := range [][]byte{prefix, header} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("writing header: %w", err)
		}
	}
	return nil
}

func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	entries := make(map[string]any, len(tensors)+1)
	if metadata != nil {
		entries[metadataKey] = metadata
	}
	at := uint64(0)
	for _, t := range tensors {
		if _, twice := entries[t.Name]; twice {
			return nil, fmt.Errorf("tensor %q is given twice", t.Name)
		}
		e, err := t.entry(at)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		entries[t.Name] = e
		at = e.Offsets[1]
	}
	header, err := json.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("encoding header: %w", err)
	}
	return append(header, bytes.Repeat([]byte(" "), -len(header)&7)...), nil
}

func (t Tensor) entry(at uint64) (entry, error) {
	shape, size, err := t.size()
	return entry{DType: &t.DType, Shape: shape, Offsets: []uint64{at, at + size}}, err
}

// full reports whether Data are the bytes that dtype and shape need.
func (t Tensor) full() error {
	_, size, err := t.size()
	if err == nil && size != uint64(len(t.Data)) {
		err = fmt.Errorf("%s%v needs %d bytes, got %d", t.DType, t.Shape, size, len(t.Data))
	}
	return err
}

// size returns the shape as the header has it, and the bytes that it needs.
func (t Tensor) size() ([]uint64, uint64, error) {
	shape := make([]uint64, len(t.Shape))
	for i, n := range t.Shape {
		if n < 0 {
			return nil, 0, fmt.Errorf("shape %v is negative", t.Shape)
		}
		shape[i] = uint64(n)
	}
	if !t.DType.Known() {
		return nil, 0, fmt.Errorf("dtype %q is unknown", string(t.DType))
	}
	size, err := byteLen(t.DType, shape)
	return shape, size, err
}
