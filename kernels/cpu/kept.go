package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// PagePositions is the number of positions in a page of the KV cache.
const PagePositions = 32

// KVFormat is how pages keep keys and values.
type KVFormat uint8

// The formats. KVBF16 and KVInt8 take heads of a multiple of PanelWidth dimensions.
const (
	KVF32  KVFormat = iota
	KVBF16          // see StoreKVHalf
	KVInt8          // see StoreKVCodes
)

// Takes reports whether heads of so many dimensions can be kept so.
func (f KVFormat) Takes(dim int) bool { return f == KVF32 || dim%PanelWidth == 0 }

// Words returns how many float32 words the keys of one head take in a page, or its values of as many dimensions.
func (f KVFormat) Words(dim int) int {
	if f == KVInt8 {
		return f.words(dim*PagePositions) + PagePositions
	}
	return f.words(dim * PagePositions)
}

// words returns how many words n numbers take, without their scales.
func (f KVFormat) words(n int) int {
	switch f {
	case KVBF16:
		return n / 2
	case KVInt8:
		return n / 4
	}
	return n
}

// Store writes one position's key and value of one head: see StoreKV, StoreKVHalf and StoreKVCodes.
func (f KVFormat) Store(kblock, vblock []float32, slot int, k, v []float32) {
	switch f {
	case KVBF16:
		StoreKVHalf(kblock, vblock, slot, k, v)
	case KVInt8:
		StoreKVCodes(kblock, vblock, slot, k, v)
	default:
		StoreKV(kblock, vblock, slot, k, v)
	}
}

// StoreKV writes the key and the value (C) of one position of one KV head into
// its page: kblock is (C, PagePositions), transposed so that scores run over
// positions; vblock is (PagePositions, C).
func StoreKV(kblock, vblock []float32, slot int, k, v []float32) {
	c := len(k)
	if slot < 0 || slot >= PagePositions || len(v) != c || len(kblock) < c*PagePositions || len(vblock) < c*PagePositions {
		panic(fmt.Sprintf("cpu.StoreKV: slot %d of blocks of %d and %d values, key of %d, value of %d",
			slot, len(kblock), len(vblock), c, len(v)))
	}
	for i, x := range k {
		kblock[i*PagePositions+slot] = x
	}
	copy(vblock[slot*c:(slot+1)*c], v)
}

// StoreKVHalf is StoreKV with blocks of bf16: a word of kblock (C, PagePositions/2) has what slots i
// (low half) and i+16 have of a dimension, one of vblock (PagePositions, C/2) what a position has of
// dimensions i and i+16 of each 32. C is a multiple of 32.
func StoreKVHalf(kblock, vblock []float32, slot int, k, v []float32) {
	c := len(k)
	if slot < 0 || slot >= PagePositions || c%PanelWidth != 0 || len(v) != c || len(kblock) < c*PagePositions/2 || len(vblock) < c*PagePositions/2 {
		panic(fmt.Sprintf("cpu.StoreKVHalf: slot %d of blocks of %d and %d words, key of %d, value of %d",
			slot, len(kblock), len(vblock), c, len(v)))
	}
	keys, values := halves(kblock)[interleaved(slot):], bytesIn(vblock)[2*slot*c:2*(slot+1)*c]
	var b [2 * PanelWidth]byte
	for i := 0; i < c; i += PanelWidth {
		toBF16(b[:], k[i:i+PanelWidth])
		for j := range PanelWidth {
			keys[(i+j)*PagePositions] = binary.LittleEndian.Uint16(b[2*j:])
		}
		toBF16(b[:], v[i:i+PanelWidth])
		interleave((*[2 * PanelWidth]byte)(values[2*i:]), &b)
	}
}

// interleave puts the halves of PanelWidth numbers in bf16 side by side.
func interleave(dst, b *[2 * PanelWidth]byte) {
	for j := 0; j < PanelWidth; j += 2 {
		binary.LittleEndian.PutUint16(dst[2*j:], binary.LittleEndian.Uint16(b[j:]))
		binary.LittleEndian.PutUint16(dst[2*j+2:], binary.LittleEndian.Uint16(b[PanelWidth+j:]))
	}
}

func halves(words []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(words))), 2*len(words))
}

// StoreKVCodes is StoreKV with blocks of whole codes of -127 to 127 and a scale for each position's
// key, and one for its value: the codes of keys are (C, PagePositions), those of values
// (PagePositions, C), four in a word, and PagePositions scales follow. C is a multiple of 32.
//
// A number x has the code x · (127/m), rounded to the nearest, ties to even, where m is the vector's
// largest magnitude; its scale is m/127. A vector whose m is below smallestRow has zeros for its codes
// and scale; one with a value that is no finite number has NaN for its scale.
func StoreKVCodes(kblock, vblock []float32, slot int, k, v []float32) {
	c := len(k)
	if size := KVInt8.Words(c); slot < 0 || slot >= PagePositions || c%PanelWidth != 0 || len(v) != c || len(kblock) < size || len(vblock) < size {
		panic(fmt.Sprintf("cpu.StoreKVCodes: slot %d of blocks of %d and %d words, key of %d, value of %d",
			slot, len(kblock), len(vblock), c, len(v)))
	}
	at := c*PagePositions/4 + slot
	kblock[at] = encode(bytesIn(kblock)[slot:], PagePositions, k)
	vblock[at] = encode(bytesIn(vblock)[slot*c:], 1, v)
}

func bytesIn(words []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
}

// encode writes the codes of x, each so many bytes behind the one before, and returns their scale.
func encode(dst []byte, step int, x []float32) float32 {
	top := uint32(0) // magnitudes as bits have the same order, and NaN is above all
	for _, v := range x {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	scale, inv := float32(math.NaN()), float32(0)
	if largest := math.Float32frombits(top); top < 0x7f800000 {
		scale = 0
		if largest >= smallestRow {
			scale, inv = largest/127, 127/largest
		}
	}
	if inv == 0 {
		for i := range x {
			dst[i*step] = 0
		}
		return scale
	}
	for i, v := range x {
		dst[i*step] = byte(math.Float32bits(float32(v*inv) + toWhole))
	}
	return scale
}

// toWhole, added to a float32 of less than 2^22, leaves it rounded to a whole number, ties to even,
// whose two's complement is in the lowest bits.
const toWhole = 0x1.8p23

// tileCodesGeneric computes a tile with codes as weights, as numbers without a scale, in plain Go.
func tileCodesGeneric(dst, x []float32, w []byte, t tile) {
	for r := range t.rows {
		for p := range t.panels {
			out := dst[r*t.ldDst+p*PanelWidth:][:PanelWidth]
			var acc, row [PanelWidth]float32
			if t.add {
				copy(acc[:], out)
			}
			for i, v := range x[r*t.ldX:][:t.k] {
				for j, code := range w[p*t.panelStride+i*t.step:][:PanelWidth] {
					row[j] = float32(int8(code))
				}
				fmaPanel(&acc, &row, v)
			}
			copy(out, acc[:])
		}
	}
}

// tileHeadsCodes is tileHeads with codes as weights, four in a word; stride counts words.
func tileHeadsCodes(dst, x, w []float32, heads, stride int, t tile) {
	for h := 0; h < heads; {
		h += tileCodesHeads(dst[h*t.rows*t.ldDst:], x[h*t.rows*t.ldX:], w[h*stride:], heads-h, stride, t)
	}
}

// rescale multiplies the scores of all rows with their positions' scales: those of keys, or of values,
// whose codes begin at this word of a head's block.
func (a *attention) rescale(rows, at int) {
	if a.format != KVInt8 {
		return
	}
	at += a.words(a.c * PagePositions)
	each := rows / a.heads
	for h := range a.heads {
		for p := a.first; p <= a.last; p++ {
			copy(a.scales[(p-a.first)*PagePositions:][:PagePositions], a.keys(p)[h*a.stride()+at:])
		}
		for r := h * each; r < (h+1)*each; r++ {
			s := a.row(r)
			norm(s, s, a.scales[:len(s)], 1)
		}
	}
}
