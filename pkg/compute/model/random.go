package model

import (
	"encoding/binary"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/kernels/cpu"
)

// Random is how the numbers of a matrix follow from a seed, for whoever makes them itself.
// Element i of n is one of Numbers: which one say the 12 bits from 12·(i mod 4) on of number i/4
// of splitmix64, numbers counted from 0; of the last n mod 4 elements each has the lowest bits of
// a number of its own.
type Random struct {
	Stream        uint64 // the generator's state before number 0
	Deviation     float64
	Rows, Columns int
}

// Random returns how a tensor is made, if it is a matrix of random numbers, all of it bf16.
func (m *Model) Random(ref Ref) (Random, bool) {
	s, ok := m.source.(*synthetic)
	if !ok || m.Spec.Shape(ref) == nil {
		return Random{}, false
	}
	t, ok := s.stat(m.stored(ref).Name) // one role's, whole; codes and scales have longer names
	if !ok || len(t.Shape) < 2 {
		return Random{}, false
	}
	return s.random(t), true
}

// Numbers returns what elements are chosen from, as bf16.
func (r Random) Numbers() []uint16 { return gaussian(r.Deviation)[:] }

// gaussTable is how many normal numbers there are: twelve random bits choose one.
const gaussTable = 4096

type normals [gaussTable]uint16

// gaussian returns the normal numbers times a deviation.
func gaussian(deviation float64) *normals {
	var table normals
	var x [gaussTable]float32
	for i, q := range splitmix.Normals() {
		x[i] = float32(q * deviation)
	}
	var raw [2 * gaussTable]byte
	cpu.ToBF16(raw[:], x[:])
	for i := range table {
		table[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return &table
}

// Fill makes the numbers, as bf16, four of each 64-bit word of a counter-based generator
// (splitmix64). len(data) is even.
func (r Random) Fill(data []byte) {
	table, stream := gaussian(r.Deviation), r.Stream
	for ; len(data) >= 32; data = data[32:] { // four words are made side by side
		a, b, c, d := splitmix.Next(&stream), splitmix.Next(&stream), splitmix.Next(&stream), splitmix.Next(&stream)
		binary.LittleEndian.PutUint64(data[:8], table.four(a))
		binary.LittleEndian.PutUint64(data[8:16], table.four(b))
		binary.LittleEndian.PutUint64(data[16:24], table.four(c))
		binary.LittleEndian.PutUint64(data[24:32], table.four(d))
	}
	for ; len(data) >= 8; data = data[8:] {
		binary.LittleEndian.PutUint64(data, table.four(splitmix.Next(&stream)))
	}
	for ; len(data) >= 2; data = data[2:] {
		binary.LittleEndian.PutUint16(data, table[splitmix.Next(&stream)&4095])
	}
}

// four returns those that a word's lower 48 bits choose.
func (t *normals) four(r uint64) uint64 {
	return uint64(t[r&4095]) | uint64(t[r>>12&4095])<<16 | uint64(t[r>>24&4095])<<32 | uint64(t[r>>36&4095])<<48
}
