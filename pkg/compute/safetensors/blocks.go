package safetensors

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Element types of GGUF files, which store blocks of neighbours in a row with scales of
// their own. Names are llama.cpp's.
const (
	Q40 DType = "Q4_0"
	Q41 DType = "Q4_1"
	Q50 DType = "Q5_0"
	Q51 DType = "Q5_1"
	Q80 DType = "Q8_0"
	Q4K DType = "Q4_K"
	Q5K DType = "Q5_K"
	Q6K DType = "Q6_K"
)

// block is how a type stores so many elements in so many bytes, and makes float32 of them.
type block struct {
	elements, bytes int
	floats          func(out []float32, b []byte)
}

// blocks are the types that store blocks. Codes are whole numbers, and scales have 11 bits
// (or 11 by 8): a scale times a code is one rounding at most, so every engine that computes
// in float32 decodes the same numbers.
var blocks = map[DType]block{
	Q40: {32, 18, fromQ40}, Q41: {32, 20, fromQ41}, Q50: {32, 22, fromQ50}, Q51: {32, 24, fromQ51}, Q80: {32, 34, fromQ80},
	Q4K: {256, 144, fromQ4K}, Q5K: {256, 176, fromQ5K}, Q6K: {256, 210, fromQ6K},
}

// Block is how many neighbours of a row are stored together, in how many bytes; 1 element
// for types that store each by itself.
func (d DType) Block() (elements, bytes int) {
	if b, ok := blocks[d]; ok {
		return b.elements, b.bytes
	}
	return 1, d.Size()
}

// decode converts blocks to float32, and fails for scales that are no finite numbers: those
// of a block are in each of its numbers, so that the first one shows it.
func (k block) decode(out []float32, b []byte) error {
	for i := range len(out) / k.elements {
		numbers := out[i*k.elements:][:k.elements]
		k.floats(numbers, b[i*k.bytes:][:k.bytes])
		if x := float64(numbers[0]); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("block %d has a scale that is no finite number", i)
		}
	}
	return nil
}

func half(b []byte) float32 { return HalfToFloat(binary.LittleEndian.Uint16(b)) }

// fromQ40 decodes a scale, then codes less 8, the low halves of 16 bytes before the high ones.
func fromQ40(out []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:] {
		out[i], out[i+16] = d*float32(int(q&15)-8), d*float32(int(q>>4)-8)
	}
}

// fromQ41 decodes a scale and an offset, then codes.
func fromQ41(out []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:] {
		out[i], out[i+16] = float32(d*float32(q&15))+m, float32(d*float32(q>>4))+m
	}
}

// fifth is bit i of four bytes, as the fifth bit of a code.
func fifth(high uint32, i int) int { return int(high>>i&1) << 4 }

// fromQ50 decodes as fromQ40, with the fifth bits of all codes, less 16, before the others.
func fromQ50(out []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:] {
		out[i], out[i+16] = d*float32(int(q&15)+fifth(high, i)-16), d*float32(int(q>>4)+fifth(high, i+16)-16)
	}
}

// fromQ51 decodes as fromQ41, with the fifth bits of all codes before the others.
func fromQ51(out []float32, b []byte) {
	d, m, high := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for i, q := range b[8:] {
		out[i] = float32(d*float32(int(q&15)+fifth(high, i))) + m
		out[i+16] = float32(d*float32(int(q>>4)+fifth(high, i+16))) + m
	}
}

// fromQ80 decodes a scale, then codes in two's complement.
func fromQ80(out []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:] {
		out[i] = d * float32(int8(q))
	}
}

// scaleAndMin are the 6-bit scale and minimum of group j of eight, in 12 bytes: the low
// halves of the last four groups share bytes, and their high bits are above those of the first.
func scaleAndMin(b []byte, j int) (scale, least float32) {
	if j < 4 {
		return float32(b[j] & 63), float32(b[j+4] & 63)
	}
	return float32(b[j+4]&15 | b[j-4]>>6<<4), float32(b[j+4]>>4 | b[j]>>6<<4)
}

// fromQ4K decodes a scale of scales and one of minima, eight of each, then codes of eight groups,
// those of two neighbours in the halves of 32 bytes.
func fromQ4K(out []float32, b []byte) {
	for j := range 8 {
		group := out[32*j:][:32]
		for i, q := range b[16+j/2*32:][:32] {
			group[i] = float32(q >> (j % 2 * 4) & 15)
		}
		scaleGroup(group, b, j)
	}
}

// fromQ5K decodes as fromQ4K, with the fifth bits before the codes: bit j of byte i is that of code
// i of group j.
func fromQ5K(out []float32, b []byte) {
	high := b[16:48]
	for j := range 8 {
		group := out[32*j:][:32]
		for i, q := range b[48+j/2*32:][:32] {
			group[i] = float32(q>>(j%2*4)&15 | high[i]>>j&1<<4)
		}
		scaleGroup(group, b, j)
	}
}

// scaleGroup makes numbers of the codes of group j, whose block begins with the two scales
// and twelve bytes of scales and minima.
func scaleGroup(codes []float32, b []byte, j int) {
	scale, least := scaleAndMin(b[4:16], j)
	d, m := half(b)*scale, half(b[2:])*least
	for i, q := range codes {
		codes[i] = float32(d*q) - m
	}
}

// fromQ6K decodes the low four bits of codes, the high two, scales of groups of 16 in two's
// complement, and their scale. Codes are less 32. Each half of the block has four runs of 32
// codes: those of runs 0 and 1 are low halves, those of 2 and 3 high halves.
func fromQ6K(out []float32, b []byte) {
	d, scales := half(b[208:]), b[192:208]
	for at := 0; at < 256; at += 32 {
		n, run := at/128, at%128/32
		low, high := b[n*64+run%2*32:][:32], b[128+n*32:][:32]
		for i := range 32 {
			code := int(low[i]>>(run/2*4)&15) | int(high[i]>>(2*run)&3)<<4
			out[at+i] = d * float32(int8(scales[(at+i)/16])) * float32(code-32)
		}
	}
}

// Blocks are the types that store blocks, sorted.
func Blocks() []DType { return slices.Sorted(maps.Keys(blocks)) }
