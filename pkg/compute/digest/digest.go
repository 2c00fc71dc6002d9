package digest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Sum is a SHA-256.
type Sum [sha256.Size]byte

func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText returns the sum in hex.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads hex.
func (s *Sum) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(s)) {
		return fmt.Errorf("digest %.80q has %d characters, not %d", text, len(text), hex.EncodedLen(len(s)))
	}
	if _, err := hex.Decode(s[:], text); err != nil {
		return fmt.Errorf("digest %q: %w", text, err)
	}
	return nil
}

// Tensor is what a model's identity takes of one tensor.
type Tensor struct {
	Name  string            `json:"name"`
	DType safetensors.DType `json:"dtype"`
	Shape []int             `json:"shape"`
	Sum   Sum               `json:"sha256"`
}

// Identity returns the hash of a model: of its config.json, and of the name, type,
// shape and content of each tensor. Their order does not matter.
func Identity(config []byte, tensors []Tensor) string {
	h := sha256.New()
	part(h, []byte("switchyard model 1"))
	part(h, config)
	sorted := slices.SortedFunc(slices.Values(tensors), func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range sorted {
		part(h, []byte(t.Name))
		part(h, fmt.Append(nil, t.DType, t.Shape))
		h.Write(t.Sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// part writes bytes with their length, so that parts cannot run together.
func part(h hash.Hash, data []byte) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(data))))
	h.Write(data)
}

// sumPiece is how much is read at once, and after how much the end of a context
// is seen.
const sumPiece = 1 << 20

// sum hashes size bytes of r, and tells after each piece how many more are done.
func sum(ctx context.Context, r io.Reader, size int64, buf []byte, done func(int64)) (s Sum, err error) {
	h := sha256.New()
	for left := size; left > 0; {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		piece := buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(r, piece); err != nil {
			return s, fmt.Errorf("%d bytes before the end: %w", left, err)
		}
		h.Write(piece)
		left -= int64(len(piece))
		done(int64(len(piece)))
	}
	h.Sum(s[:0])
	return s, nil
}
