package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// known are two blocks of a type, and the numbers that llama.cpp's reader makes of them.
type known struct{ Blocks, Floats []byte }

func knownBlocks(t *testing.T) (all map[DType]known) {
	t.Helper()
	data, err := os.ReadFile("testdata/blocks.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Blocks are the numbers that llama.cpp's own reader makes of them, to the bit
// (testdata/blocks.py).
func TestBlocks(t *testing.T) {
	all := knownBlocks(t)
	for _, kind := range Blocks() {
		t.Run(string(kind), func(t *testing.T) {
			elements, size := kind.Block()
			x := Tensor{DType: kind, Shape: []int{2, elements}, Data: all[kind].Blocks}
			if len(x.Data) != 2*size || kind.Bytes(int64(x.Len())) != int64(len(x.Data)) {
				t.Fatalf("%d bytes, %d by Bytes", len(x.Data), kind.Bytes(int64(x.Len())))
			}
			got, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range slices.Collect(slices.Chunk(all[kind].Floats, 4)) {
				if math.Float32bits(got[i]) != binary.LittleEndian.Uint32(want) {
					t.Fatalf("number %d is %v, not %v", i, got[i], math.Float32frombits(binary.LittleEndian.Uint32(want)))
				}
			}
		})
	}
}

// Scales that are no numbers are refused, wherever a type keeps them.
func TestBlocksWithBadScales(t *testing.T) {
	for _, kind := range Blocks() {
		at := map[DType][]int{Q41: {0, 2}, Q51: {0, 2}, Q4K: {0, 2}, Q5K: {0, 2}, Q6K: {208}}[kind]
		if at == nil {
			at = []int{0}
		}
		elements, size := kind.Block()
		for _, offset := range at {
			for _, bad := range []uint16{0x7c00, 0xfc00, 0x7e00} {
				x := Tensor{Name: "x", DType: kind, Shape: []int{2, elements}, Data: make([]byte, 2*size)}
				binary.LittleEndian.PutUint16(x.Data[size+offset:], bad)
				if _, err := x.Floats(); err == nil || !strings.Contains(err.Error(), "block 1 has a scale") {
					t.Errorf("%s, %#x at byte %d: error %v", kind, bad, offset, err)
				}
			}
		}
	}
}

// A header's blocks must fill rows.
func TestBlocksFillRows(t *testing.T) {
	for _, tt := range []struct {
		shape []uint64
		bytes uint64
	}{
		{[]uint64{2, 64}, 72}, {[]uint64{64}, 36}, {[]uint64{0, 32}, 0}, {[]uint64{64, 2}, 0}, {nil, 0},
	} {
		n, err := byteLen(Q40, tt.shape)
		if n != tt.bytes || (err != nil) != (len(tt.shape) == 0 || tt.shape[len(tt.shape)-1]%32 != 0) {
			t.Errorf("%v: %d bytes, error %v", tt.shape, n, err)
		}
	}
}

func BenchmarkBlocks(b *testing.B) {
	for _, kind := range Blocks() {
		b.Run(string(kind), func(b *testing.B) {
			const rows = 64 // in the cache
			x := Tensor{DType: kind, Shape: []int{rows, 256}, Data: make([]byte, kind.Bytes(rows*256))}
			out := make([]float32, x.Len())
			b.SetBytes(int64(len(x.Data)))
			for b.Loop() {
				if err := x.FloatsTo(out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
