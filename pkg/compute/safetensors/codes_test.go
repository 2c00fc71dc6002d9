package safetensors

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Codes give the numbers that llama.cpp's reader makes of the blocks, by one rounding.
func TestCodes(t *testing.T) {
	all := knownBlocks(t)
	for _, kind := range Blocks() {
		elements, _ := kind.Block()
		var c Codes
		for block := range 2 {
			if err := c.Read(kind, all[kind].Blocks, block); err != nil {
				t.Fatal(err)
			}
			for i := range elements {
				want := math.Float32frombits(binary.LittleEndian.Uint32(all[kind].Floats[4*(block*elements+i):]))
				if got := c.number(kind, i); got != want {
					t.Fatalf("%s: number %d of block %d is %v, not %v", kind, i, block, got, want)
				}
			}
		}
	}
}

// number i of a block, in float64 until the end.
func (c *Codes) number(kind DType, i int) float32 {
	code, sub, submin := float64(c.Code[i]), 1.0, 1.0
	switch kind {
	case Q40:
		code -= 8
	case Q4K, Q5K:
		sub, submin = float64(c.Subs[i/32]), float64(c.Submins[i/32])
	case Q6K:
		sub = float64(c.Subs[i/16])
	}
	return float32(code*float64(cpu.HalfToFloat(c.Step))*sub + float64(cpu.HalfToFloat(c.Min))*submin)
}

// What Floats refuses, Read and CheckBlocks refuse.
func TestCodesWithBadScales(t *testing.T) {
	for _, kind := range Blocks() {
		elements, size := kind.Block()
		for offset := 0; offset < size; offset += 2 {
			x := Tensor{Name: "x", DType: kind, Shape: []int{2, elements}, Data: make([]byte, 2*size)}
			binary.LittleEndian.PutUint16(x.Data[size+offset:], 0x7c00)
			var c Codes
			_, want := x.Floats()
			read, check := c.Read(kind, x.Data, 1), x.CheckBlocks()
			if (read != nil) != (want != nil) || (check != nil) != (want != nil) || want != nil && !strings.Contains(read.Error(), "block 1 has a scale") {
				t.Errorf("%s, byte %d: %v and %v, but %v of Floats", kind, offset, read, check, want)
			}
		}
	}
}

// Any block is read, or refused as Floats refuses it.
func FuzzCodes(f *testing.F) {
	f.Add(uint8(0), make([]byte, 210))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		kind := Blocks()[int(which)%len(Blocks())]
		elements, size := kind.Block()
		if len(data) < size {
			return
		}
		x := Tensor{DType: kind, Shape: []int{elements}, Data: data[:size]}
		want, bad := x.Floats()
		var c Codes
		if err := c.Read(kind, data, 0); (err != nil) != (bad != nil) || (x.CheckBlocks() != nil) != (bad != nil) {
			t.Fatalf("%s: %v, but %v of Floats", kind, err, bad)
		}
		for i, w := range want {
			if got := c.number(kind, i); got != w {
				t.Fatalf("%s: number %d is %v, not %v", kind, i, got, w)
			}
		}
	})
}
