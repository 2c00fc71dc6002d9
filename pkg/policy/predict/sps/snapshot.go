package sps

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Magic is how a snapshot begins.
const Magic = "switchyard-prompts-1\n"

// What is refused of snapshots.
var (
	ErrNoSnapshot = errors.New("no store of prompts")
	ErrDamaged    = errors.New("a damaged store of prompts")
	ErrForeign    = errors.New("a store of other prompts")
)

// A snapshot has Magic, a header with its length before it, the centre and the mean, then by slot the
// prompts that are there, then the tree from the root on, each node before its children, and the digest of all that at the
// end. Numbers are little-endian, of 32 bits.
type header struct {
	Settings
	Slots int    `json:"slots"`
	Added int    `json:"added"`
	Draws uint64 `json:"draws"`
}

const (
	mostHeader = 1 << 16
	mostDepth  = 1 << 10
)

// Fits reports whether the store is of a model's prompts, by its hash, and of activations of this shape,
// and has any prompts.
func (s *Store) Fits(model string, layers, experts int) error {
	switch {
	case s.Model != model:
		return fmt.Errorf("%w: they are of the model with hash %.12s, not %.12s; build a store of this model's prompts", ErrForeign, s.Model, model)
	case s.Layers != layers || s.Experts != experts:
		return fmt.Errorf("%w: their activations have %d layers of %d experts, and %d of %d are asked for; build a store with a model of that shape", ErrForeign, s.Layers, s.Experts, layers, experts)
	case s.Len() == 0:
		return fmt.Errorf("%w: it is empty; build it of one prompt or more", ErrForeign)
	}
	return nil
}

// Save writes a snapshot. Equal stores give equal bytes.
func (s *Store) Save(w io.Writer) error {
	_, err := s.save(w)
	return err
}

// Digest names the store's content.
func (s *Store) Digest() string {
	digest, err := s.save(io.Discard)
	if err != nil {
		panic(err) // io.Discard takes everything
	}
	return digest
}

func (s *Store) save(w io.Writer) (digest string, err error) {
	sum := sha256.New()
	o := writer{out: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)}
	head, err := json.Marshal(header{s.Settings, len(s.leaves), s.added, s.draws})
	if err != nil {
		return "", fmt.Errorf("encoding the header of prompts: %w", err)
	}
	o.bytes([]byte(Magic))
	o.number(len(head))
	o.bytes(head)
	o.floats(s.centre)
	o.floats(s.typical)
	for slot, leaf := range s.leaves {
		if leaf == nil {
			o.number(0)
			continue
		}
		o.number(1)
		o.floats(s.vectors.row(int32(slot)))
		o.floats(s.activations.row(int32(slot)))
	}
	o.node(s.root)
	if err := errors.Join(o.err, o.out.Flush()); err != nil {
		return "", fmt.Errorf("writing prompts: %w", err)
	}
	whole := sum.Sum(nil)
	if _, err := w.Write(whole); err != nil {
		return "", fmt.Errorf("writing prompts: %w", err)
	}
	return hex.EncodeToString(whole), nil
}

// writer keeps the first error.
type writer struct {
	out *bufio.Writer
	err error
}

func (o *writer) bytes(b []byte) {
	if o.err == nil {
		_, o.err = o.out.Write(b)
	}
}

func (o *writer) number(n int) { o.bytes(binary.LittleEndian.AppendUint32(nil, uint32(n))) }

func (o *writer) floats(all []float32) {
	b := make([]byte, 0, 4*len(all))
	for _, v := range all {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	o.bytes(b)
}

func (o *writer) node(n *node) {
	o.number(len(n.children))
	o.number(len(n.members))
	o.number(n.alike)
	if n.parent != nil {
		o.floats(n.medoid)
	}
	for _, slot := range n.members {
		o.number(int(slot))
	}
	for _, c := range n.children {
		o.node(c)
	}
}
