package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// FateCode is what became of each row × layer × slot: whether the expert that the gate
// chose has computed it, a united expert in its place, or none. The codec is of messages
// and of the token log: where all slots had their own experts there is nothing.
type FateCode uint8

// The codes, with the numbers that are stored.
const (
	FateOwn     FateCode = 0 // the expert that the gate chose
	FateUnited  FateCode = 1 // the united expert of its group
	FateLeftOut FateCode = 2 // nobody: it adds nothing
	codes                = 3
)

// ErrFates is wrapped by what is wrong with fates.
var ErrFates = errors.New("fates")

// MaxFateSlots bounds the row × layer × slots of one Fates: memory follows the numbers of a
// message only up to here.
const MaxFateSlots = 1 << 24

// The forms of codes, their first byte. Of both the shorter one is used.
const (
	formRuns  = 1 // uvarints: length·4 + code
	formPairs = 2 // two bits each, the lowest of a byte first
)

// FatesShape is of what the fates are: so many rows, layers that have experts, and slots.
type FatesShape struct{ Rows, Layers, Slots int }

func (s FatesShape) size() int { return s.Rows * s.Layers * s.Slots }

// EncodeFates is the fates of a shape; nil where all slots had their own experts.
func EncodeFates(s FatesShape, of []FateCode) *pb.Fates {
	plain := true
	for _, c := range of {
		plain = plain && c == FateOwn
	}
	if plain {
		return nil
	}
	f := PlainFates(s)
	f.Codes = runs(of)
	if n := 1 + (len(of)+3)/4; n < len(f.Codes) {
		f.Codes = pairs(of, n)
	}
	return f
}

// PlainFates is written out that all slots had their own experts, for rows beside which others had not.
func PlainFates(s FatesShape) *pb.Fates {
	return &pb.Fates{Rows: uint32(s.Rows), Layers: uint32(s.Layers), Slots: uint32(s.Slots)}
}

func runs(of []FateCode) []byte {
	out := []byte{formRuns}
	for i := 0; i < len(of); {
		n := 1
		for i+n < len(of) && of[i+n] == of[i] {
			n++
		}
		out = binary.AppendUvarint(out, uint64(n)<<2|uint64(of[i]))
		i += n
	}
	return out
}

func pairs(of []FateCode, n int) []byte {
	out := make([]byte, n)
	out[0] = formPairs
	for i, c := range of {
		out[1+i/4] |= byte(c) << (2 * (i % 4))
	}
	return out
}

// FollowFates gives a row's slots to what they went to before: nowhere (-1, with weight 0) where they are left
// out, and to the united expert that number says of a routed one. Two slots of one united expert are
// one, the lower, with the sum of their weights.
func FollowFates(codes []FateCode, expert []int32, weight []float32, number func(expert int32) (int32, error)) error {
	for i, c := range codes {
		if c == FateOwn || expert[i] < 0 {
			continue
		}
		to := int32(-1)
		if c == FateUnited {
			var err error
			if to, err = number(expert[i]); err != nil {
				return err
			}
		}
		if c == FateLeftOut {
			weight[i] = 0
		} else if j := slices.Index(expert[:i], to); j >= 0 {
			weight[j] += weight[i]
			to, weight[i] = -1, 0
		}
		expert[i] = to
	}
	return nil
}

// HashFates tells decisions on the slots of a group apart; 0: all had their own experts.
func HashFates(f *pb.Fates) uint64 {
	if f == nil {
		return 0
	}
	h := fnv.New64a()
	for _, n := range []uint64{uint64(f.Rows), uint64(f.Layers), uint64(f.Slots), uint64(f.Way), f.Bundle} {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, n)) // never fails
	}
	_, _ = h.Write(f.Codes)
	return max(1, h.Sum64())
}

// CheckFates says what is wrong with fates, whatever their shape.
func CheckFates(f *pb.Fates) error {
	_, err := DecodeFates(f)
	return err
}

// CheckFatesShape is Check for those of a shape that is known.
func CheckFatesShape(f *pb.Fates, s FatesShape) error {
	if f == nil {
		return nil
	}
	if got := FatesShapeOf(f); got != s {
		return fmt.Errorf("%w of %d rows, %d layers and %d slots, want %d, %d and %d", ErrFates, got.Rows, got.Layers, got.Slots, s.Rows, s.Layers, s.Slots)
	}
	return CheckFates(f)
}

// FatesShapeOf is what fates are of.
func FatesShapeOf(f *pb.Fates) FatesShape {
	return FatesShape{int(f.GetRows()), int(f.GetLayers()), int(f.GetSlots())}
}

// DecodeFates is a code for each slot. Fates that were omitted have none, which is no error.
func DecodeFates(f *pb.Fates) ([]FateCode, error) {
	rows, layers, slots := uint64(f.GetRows()), uint64(f.GetLayers()), uint64(f.GetSlots())
	switch {
	case rows == 0 || layers == 0 || slots == 0 || rows > MaxFateSlots || layers > MaxFateSlots/rows || slots > MaxFateSlots/(rows*layers):
		return nil, fmt.Errorf("%w of %d rows, %d layers and %d slots; they have 1 to %d together", ErrFates, rows, layers, slots, MaxFateSlots)
	case f.Omitted && len(f.Codes) > 0:
		return nil, fmt.Errorf("%w that were omitted, with %d bytes of codes", ErrFates, len(f.Codes))
	case f.Omitted:
		return nil, nil
	}
	out := make([]FateCode, rows*layers*slots)
	if len(f.Codes) == 0 {
		return out, nil
	}
	if f.Codes[0] == formPairs {
		return out, readPairs(out, f.Codes[1:])
	}
	if f.Codes[0] != formRuns {
		return nil, fmt.Errorf("%w in form %d; known are %d (runs) and %d (pairs)", ErrFates, f.Codes[0], formRuns, formPairs)
	}
	return out, readRuns(out, f.Codes[1:])
}

func readPairs(out []FateCode, body []byte) error {
	if len(body) != (len(out)+3)/4 {
		return fmt.Errorf("%w of %d slots in %d bytes", ErrFates, len(out), len(body))
	}
	for i := range out {
		if out[i] = FateCode(body[i/4] >> (2 * (i % 4)) & 3); out[i] >= codes {
			return fmt.Errorf("%w: slot %d has code %d, which is unknown", ErrFates, i, out[i])
		}
	}
	if past := len(out) % 4; past > 0 && body[len(body)-1]>>(2*past) != 0 {
		return fmt.Errorf("%w with bits beyond the last slot", ErrFates)
	}
	return nil
}

func readRuns(out []FateCode, body []byte) error {
	for at := 0; at < len(out); {
		v, n := binary.Uvarint(body)
		if n <= 0 {
			return fmt.Errorf("%w: runs of %d of %d slots", ErrFates, at, len(out))
		}
		run, code := v>>2, FateCode(v&3)
		if run == 0 || run > uint64(len(out)-at) || code >= codes {
			return fmt.Errorf("%w: a run of %d slots of code %d, with %d left", ErrFates, run, code, len(out)-at)
		}
		for range run {
			out[at] = code
			at++
		}
		body = body[n:]
	}
	if len(body) > 0 {
		return fmt.Errorf("%w: %d bytes behind the last run", ErrFates, len(body))
	}
	return nil
}
