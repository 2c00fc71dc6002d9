package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Recording is an open file. It is safe for concurrent use until Close.
type Recording struct {
	Header
	file    *safetensors.File
	fields  [rowFields][]byte
	experts [][]byte // by index into Layers
	inputs  [][]byte
	keys    [][]byte
}

// Open maps a recording and checks it. The error names the path.
func Open(path string) (*Recording, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := of(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading recording %s: %w", path, err), f.Close())
	}
	return r, nil
}

// Close gives the mapping back.
func (r *Recording) Close() error { return r.file.Close() }

func of(f *safetensors.File) (*Recording, error) {
	h, err := parseHeader(f.Metadata())
	if err != nil {
		return nil, err
	}
	n := rowFields + len(h.Layers)
	if h.Keys {
		n += len(h.Layers)
	}
	if len(f.Names()) != n && len(f.Names()) != n+len(h.Layers) {
		return nil, fmt.Errorf("it has %d tensors; %d layers need %d or %d", len(f.Names()), len(h.Layers), n, n+len(h.Layers))
	}
	r := &Recording{Header: h, file: f}
	for i, c := range h.columns() {
		t, ok := f.Tensor(c.name)
		if !ok || t.DType != c.dtype || !slices.Equal(t.Shape, c.shape) {
			return nil, fmt.Errorf("tensor %q must be there and be %s%v; it is %s%v", c.name, c.dtype, c.shape, t.DType, t.Shape)
		}
		r.take(i, t.Data)
	}
	return r, r.check()
}

func (r *Recording) take(i int, data []byte) {
	switch {
	case i < rowFields:
		r.fields[i] = data
	case i >= r.firstKeys():
		r.keys = append(r.keys, data)
	case r.Hidden > 0 && (i-rowFields)%2 == 1:
		r.inputs = append(r.inputs, data)
	default:
		r.experts = append(r.experts, data)
	}
}

func (r *Recording) check() error {
	last := 0
	for i := range r.Rows {
		row := r.Row(i)
		if row.Domain >= len(r.Domains) || r.fields[1][i] > 1 || row.Position < 0 {
			return fmt.Errorf("row %d is of domain %d of %d, phase %d and position %d", i, row.Domain, len(r.Domains), r.fields[1][i], row.Position)
		}
		if row.Sequence < last || row.Sequence > last+1 || i == 0 && row.Sequence != 0 {
			return fmt.Errorf("row %d is of sequence %d after %d; sequences must ascend from 0", i, row.Sequence, last)
		}
		last = row.Sequence
	}
	if err := r.checkKeys(); err != nil {
		return err
	}
	return r.checkExperts()
}

// checkKeys wants keys of the row's own sequence. Rows may be of any of its positions.
func (r *Recording) checkKeys() error {
	for l := range r.keys {
		for i := range r.Rows {
			if at := int32(binary.LittleEndian.Uint32(r.keys[l][4*i:])); at < 0 {
				return fmt.Errorf("row %d of layer %d has the key at position %d", i, r.Layers[l], at)
			}
		}
	}
	return nil
}

// Key returns the position of the key that counted most for row i in the attention before the gate
// of r.Layers[layer]; false for a recording without keys.
func (r *Recording) Key(layer, i int) (position int, ok bool) {
	if !r.Keys {
		return 0, false
	}
	return int(binary.LittleEndian.Uint32(r.keys[layer][4*i:])), true
}

func (r *Recording) checkExperts() error {
	ids := make([]int, r.TopK)
	for l, layer := range r.Layers {
		for i := range r.Rows {
			r.Chosen(l, i, ids)
			for slot, e := range ids {
				if e >= r.Experts || slices.Contains(ids[:slot], e) {
					return fmt.Errorf("row %d of layer %d has experts %v; they must be different and below %d", i, layer, ids, r.Experts)
				}
			}
		}
	}
	return nil
}

// Row returns what row i is.
func (r *Recording) Row(i int) Row {
	u32 := func(field int) uint32 { return binary.LittleEndian.Uint32(r.fields[field][4*i:]) }
	return Row{
		Domain: int(r.fields[0][i]), Answer: r.fields[1][i] == 1, Sequence: int(int32(u32(2))), Position: int(int32(u32(3))), Token: u32(4),
	}
}

// Sequences returns the first rows of all sequences, and behind them R.
func (r *Recording) Sequences() (first []int) {
	for i := range r.Rows {
		if i == 0 || r.Row(i).Sequence != r.Row(i-1).Sequence {
			first = append(first, i)
		}
	}
	return append(first, r.Rows)
}

// Chosen fills ids (k) with the experts that the gate of r.Layers[layer] chose
// for row i, by slot.
func (r *Recording) Chosen(layer, i int, ids []int) {
	data := r.experts[layer][2*r.TopK*i:]
	for slot := range ids {
		ids[slot] = int(binary.LittleEndian.Uint16(data[2*slot:]))
	}
}

// Inputs fills x (rows, D) with what the gate of r.Layers[layer] saw from row i
// on. It is false for a recording without inputs.
func (r *Recording) Inputs(layer, i int, x []float32) bool {
	if r.Hidden == 0 {
		return false
	}
	cpu.FromBF16(x, r.inputs[layer][2*r.Hidden*i:][:2*len(x)])
	return true
}
