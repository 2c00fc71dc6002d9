package safetensors

import (
	"encoding/binary"
	"fmt"
)

// mostBlock is the most elements of a block.
const mostBlock = 256

// Codes are what a block stores: a number is Code·(Step·Sub) + Min·Submin, where types without
// subs have 1 for both, and types without mins 0 for Min.
type Codes struct {
	Step, Min uint16 // float16, finite numbers
	// Subs and Submins are those of groups of Q4_K, Q5_K (32 elements) and Q6_K (16).
	Subs, Submins [mostBlock / 16]int8
	Code          [mostBlock]int8 // those of Q4_0 are 8 more than they count for
}

// codesOf are how the types that store blocks are read as codes.
var codesOf = map[DType]func(c *Codes, b []byte){
	Q40: codesQ4, Q41: codesQ41, Q50: codesQ50, Q51: codesQ51, Q80: codesQ80, Q4K: codesQ4K, Q5K: codesQ5K, Q6K: codesQ6K,
}

// Read reads block number i of data of a type that stores blocks. It fails for a step or a
// minimum that is no finite number.
func (c *Codes) Read(d DType, data []byte, i int) error {
	size := blocks[d].bytes
	codesOf[d](c, data[i*size:][:size])
	if notFinite(c.Step) || notFinite(c.Min) {
		return fmt.Errorf("block %d has a scale that is no finite number", i)
	}
	return nil
}

func notFinite(half uint16) bool { return half&0x7c00 == 0x7c00 }

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }

// nibbles are the low halves of bytes, and the high ones.
func nibbles(low, high []int8, b []byte) {
	low, high = low[:len(b)], high[:len(b)]
	for i, q := range b {
		low[i], high[i] = int8(q&15), int8(q>>4)
	}
}

func codesQ4(c *Codes, b []byte) {
	c.Step, c.Min = u16(b), 0
	nibbles(c.Code[:], c.Code[16:], b[2:])
}

func codesQ41(c *Codes, b []byte) {
	c.Step, c.Min = u16(b), u16(b[2:])
	nibbles(c.Code[:], c.Code[16:], b[4:])
}

// fifths adds the fifth bits of 32 codes, and less.
func (c *Codes) fifths(high uint32, less int8) {
	for i := range c.Code[:32] {
		c.Code[i] += int8(fifth(high>>i)) - less
	}
}

func codesQ50(c *Codes, b []byte) {
	c.Step, c.Min = u16(b), 0
	nibbles(c.Code[:], c.Code[16:], b[6:])
	c.fifths(binary.LittleEndian.Uint32(b[2:]), 16)
}

func codesQ51(c *Codes, b []byte) {
	c.Step, c.Min = u16(b), u16(b[2:])
	nibbles(c.Code[:], c.Code[16:], b[8:])
	c.fifths(binary.LittleEndian.Uint32(b[4:]), 0)
}

func codesQ80(c *Codes, b []byte) {
	c.Step, c.Min = u16(b), 0
	for i, q := range b[2:34] {
		c.Code[i] = int8(q)
	}
}

// subs are those of eight groups.
func (c *Codes) subs(b []byte) {
	c.Step, c.Min = u16(b), u16(b[2:])
	for j := range 8 {
		scale, least := scaleAndMin(b[4:16], j)
		c.Subs[j], c.Submins[j] = int8(scale), -int8(least)
	}
}

func codesQ4K(c *Codes, b []byte) {
	c.subs(b)
	for j := 0; j < 8; j += 2 {
		nibbles(c.Code[32*j:], c.Code[32*j+32:], b[16+16*j:][:32])
	}
}

func codesQ5K(c *Codes, b []byte) {
	c.subs(b)
	for j := 0; j < 8; j += 2 {
		low, next := c.Code[32*j:][:32], c.Code[32*j+32:][:32]
		nibbles(low, next, b[48+16*j:][:32])
		for i, high := range b[16:48] {
			low[i] |= int8(high>>j&1) << 4
			next[i] |= int8(high>>j>>1&1) << 4
		}
	}
}

func codesQ6K(c *Codes, b []byte) {
	c.Step, c.Min = u16(b[208:]), 0
	for i, s := range b[192:208] {
		c.Subs[i] = int8(s)
	}
	for at := 0; at < 256; at += 32 {
		n, run := at/128, at%128/32
		low, high, out := b[n*64+run%2*32:][:32], b[128+n*32:][:32], c.Code[at:][:32]
		for i := range out {
			out[i] = int8(low[i]>>(run/2*4)&15|high[i]>>(2*run)&3<<4) - 32
		}
	}
}

// CheckBlocks refuses a tensor of blocks with a scale that is no finite number.
func (t Tensor) CheckBlocks() error {
	size := blocks[t.DType].bytes
	at := map[DType][]int{Q41: {0, 2}, Q51: {0, 2}, Q4K: {0, 2}, Q5K: {0, 2}, Q6K: {208}}[t.DType]
	if at == nil {
		at = []int{0}
	}
	for i := range len(t.Data) / max(1, size) {
		for _, offset := range at {
			if notFinite(u16(t.Data[i*size+offset:])) {
				return fmt.Errorf("tensor %q (%s): block %d has a scale that is no finite number", t.Name, t.DType, i)
			}
		}
	}
	return nil
}

// Row decodes row i of a matrix of blocks that CheckBlocks has passed.
func (t Tensor) Row(dst []float32, i int) {
	k := blocks[t.DType]
	each := t.Shape[1] / k.elements
	for b := range each {
		k.floats(dst[b*k.elements:][:k.elements], t.Data[(i*each+b)*k.bytes:][:k.bytes])
	}
}
