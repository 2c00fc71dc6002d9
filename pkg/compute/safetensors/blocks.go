package safetensors

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
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

// Block returns how many neighbours of a row are stored together, in how many bytes; 1 element
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

func half(b []byte) float32 { return cpu.HalfToFloat(binary.LittleEndian.Uint16(b)) }

// whole are the codes as numbers: what it costs to look one up is less than what converting it does.
var whole = func() (all [256]float32) {
	for i := range all {
		all[i] = float32(i)
	}
	return all
}()

// signed are the codes in two's complement as numbers.
var signed = func() (all [256]float32) {
	for i := range all {
		all[i] = float32(int8(i))
	}
	return all
}()

// sixteen are the numbers of codes of 4 bits, of which many share a scale.
type sixteen [16]float32

// fromQ40 decodes a scale, then codes less 8, the low halves of 16 bytes before the high ones.
func fromQ40(out []float32, b []byte) {
	d, low, high := half(b), (*[16]float32)(out), (*[16]float32)(out[16:])
	for i, q := range (*[16]byte)(b[2:]) {
		low[i], high[i] = d*signed[q&15-8], d*signed[q>>4-8]
	}
}

// fromQ41 decodes a scale and an offset, then codes.
func fromQ41(out []float32, b []byte) {
	d, m, low, high := half(b), half(b[2:]), (*[16]float32)(out), (*[16]float32)(out[16:])
	for i, q := range (*[16]byte)(b[4:]) {
		low[i], high[i] = float32(d*whole[q&15])+m, float32(d*whole[q>>4])+m
	}
}

// fifth returns the lowest bit, as the fifth bit of a code.
func fifth(high uint32) byte { return byte(high&1) << 4 }

// fromQ50 decodes as fromQ40, with the fifth bits of all codes, less 16, before the others.
func fromQ50(out []float32, b []byte) {
	d, bits := half(b), binary.LittleEndian.Uint32(b[2:])
	low, high := (*[16]float32)(out), (*[16]float32)(out[16:])
	for i, q := range (*[16]byte)(b[6:]) {
		low[i], high[i] = d*signed[(q&15|fifth(bits))-16], d*signed[(q>>4|fifth(bits>>16))-16]
		bits >>= 1
	}
}

// fromQ51 decodes as fromQ41, with the fifth bits of all codes before the others.
func fromQ51(out []float32, b []byte) {
	d, m, bits := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	low, high := (*[16]float32)(out), (*[16]float32)(out[16:])
	for i, q := range (*[16]byte)(b[8:]) {
		low[i], high[i] = float32(d*whole[q&15|fifth(bits)])+m, float32(d*whole[q>>4|fifth(bits>>16)])+m
		bits >>= 1
	}
}

// fromQ80 decodes a scale, then codes in two's complement.
func fromQ80(out []float32, b []byte) {
	d, numbers := half(b), (*[32]float32)(out)
	for i, q := range (*[32]byte)(b[2:]) {
		numbers[i] = d * signed[q]
	}
}

// scaleAndMin returns the 6-bit scale and minimum of group j of eight, in 12 bytes: the low
// halves of the last four groups share bytes, and their high bits are above those of the first.
func scaleAndMin(b []byte, j int) (scale, least float32) {
	if j < 4 {
		return whole[b[j]&63], whole[b[j+4]&63]
	}
	return whole[b[j+4]&15|b[j-4]>>6<<4], whole[b[j+4]>>4|b[j]>>6<<4]
}

// fromQ4K decodes a scale of scales and one of minima, eight of each, then codes of eight groups,
// those of two neighbours in the halves of 32 bytes.
func fromQ4K(out []float32, b []byte) {
	d, least := half(b), half(b[2:])
	for j := 0; j < 8; j += 2 {
		first, second := groupTable(d, least, b, j), groupTable(d, least, b, j+1)
		low, high := (*[32]float32)(out[32*j:]), (*[32]float32)(out[32*j+32:])
		for i, q := range (*[32]byte)(b[16+16*j:]) {
			low[i], high[i] = first[q&15], second[q>>4]
		}
	}
}

// groupTable returns the numbers of group j's codes, whose block has these scales before twelve bytes of scales and
// minima.
func groupTable(d, least float32, b []byte, j int) (t sixteen) {
	scale, m := scaleAndMin(b[4:16], j)
	scale, m = d*scale, least*m
	for q := range t {
		t[q] = float32(scale*whole[q]) - m
	}
	return t
}

// fromQ5K decodes as fromQ4K, with the fifth bits before the codes: bit j of byte i is that of code
// i of group j.
func fromQ5K(out []float32, b []byte) {
	d, least, high := half(b), half(b[2:]), (*[32]byte)(b[16:])
	for j := range 8 {
		scale, m := scaleAndMin(b[4:16], j)
		scale, m = d*scale, least*m
		numbers, shift := (*[32]float32)(out[32*j:]), j%2*4
		for i, q := range (*[32]byte)(b[48+j/2*32:]) {
			numbers[i] = float32(scale*whole[q>>shift&15|high[i]>>j&1<<4]) - m
		}
	}
}

// fromQ6K decodes the low four bits of codes, the high two, scales of groups of 16 in two's
// complement, and their scale. Codes are less 32. Each half of the block has four runs of 32
// codes: those of runs 0 and 1 are low halves, those of 2 and 3 high halves.
func fromQ6K(out []float32, b []byte) {
	d, scales := half(b[208:]), b[192:208]
	for at := 0; at < 256; at += 16 {
		n, run := at/128, at%128/32
		scale, shift, up := d*signed[scales[at/16]], run/2*4, 2*run
		low, high := (*[16]byte)(b[n*64+run%2*32+at%32:]), (*[16]byte)(b[128+n*32+at%32:])
		numbers := (*[16]float32)(out[at:])
		for i, q := range low {
			numbers[i] = scale * signed[(q>>shift&15|high[i]>>up&3<<4)-32]
		}
	}
}

// Blocks returns the types that store blocks, sorted.
func Blocks() []DType { return slices.Sorted(maps.Keys(blocks)) }
