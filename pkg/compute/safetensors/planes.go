package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"runtime"

	"github.com/klauspost/compress/huff0"
)

func split(chunks []chunk) (parts [][]chunk) {
	each := max(1, (len(chunks)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for len(chunks) > 0 {
		n := min(each, len(chunks))
		parts = append(parts, chunks[:n])
		chunks = chunks[n:]
	}
	return parts
}

// unpacker has the memory of one goroutine that unpacks.
type unpacker struct {
	table   huff0.Scratch
	buffers [8][]byte // of planes that are decoded
}

func (u *unpacker) chunk(plain []byte, c chunk) error {
	var planes [8][]byte
	for i, stored := range c.planes {
		plane, err := u.plane(i, stored, c.count)
		if err != nil {
			return fmt.Errorf("plane %d: %w", i, err)
		}
		planes[i] = plane
	}
	join(plain, planes[:c.width])
	if got := crc32.Checksum(plain, castagnoli); got != c.crc {
		return fmt.Errorf("its checksum is %08x, not %08x", got, c.crc)
	}
	return nil
}

// plane returns the count bytes of a plane, which stay valid until the next chunk.
func (u *unpacker) plane(i int, stored []byte, count int) ([]byte, error) {
	if len(stored) == count {
		return stored, nil
	}
	table, rest, err := huff0.ReadTable(stored, &u.table)
	if err != nil {
		return nil, fmt.Errorf("reading its code: %w", err)
	}
	if u.buffers[i] == nil {
		u.buffers[i] = make([]byte, chunkElements)
	}
	plane, err := table.Decoder().Decompress4X(u.buffers[i][:0:count], rest)
	if err == nil && len(plane) != count {
		err = fmt.Errorf("its code holds %d bytes, not %d", len(plane), count)
	}
	return plane, err
}

// join turns the bits of elements back, whose bytes are in planes.
func join(plain []byte, planes [][]byte) {
	switch len(planes) {
	case 1:
		for i, b := range planes[0] {
			plain[i] = bits.RotateLeft8(b, -1)
		}
	case 2:
		low, high := planes[0], planes[1]
		high = high[:len(low)]
		plain = plain[:2*len(low)]
		for i, b := range low {
			binary.LittleEndian.PutUint16(plain[2*i:], bits.RotateLeft16(uint16(b)|uint16(high[i])<<8, -1))
		}
	default:
		joinWide(plain, planes)
	}
}

func joinWide(plain []byte, planes [][]byte) {
	width := len(planes)
	for i := range planes[0] {
		v := uint64(0)
		for k, p := range planes {
			v |= uint64(p[i]) << (8 * k)
		}
		putElement(plain[i*width:], width, turn(v, width, -1))
	}
}

// turn rotates the low width bytes of v to the left by n bits.
func turn(v uint64, width, n int) uint64 {
	switch width {
	case 1:
		return uint64(bits.RotateLeft8(uint8(v), n))
	case 2:
		return uint64(bits.RotateLeft16(uint16(v), n))
	case 4:
		return uint64(bits.RotateLeft32(uint32(v), n))
	}
	return bits.RotateLeft64(v, n)
}

func element(b []byte, width int) (v uint64) {
	for k := range width {
		v |= uint64(b[k]) << (8 * k)
	}
	return v
}

func putElement(b []byte, width int, v uint64) {
	for k := range width {
		b[k] = byte(v >> (8 * k))
	}
}

// planesOf returns the bytes of elements of that width as a packed file has them.
func planesOf(plain []byte, width int) ([][]byte, error) {
	planes := make([][]byte, width)
	for k := range planes {
		planes[k] = make([]byte, len(plain)/width)
	}
	for i := range planes[0] {
		v := turn(element(plain[i*width:], width), width, 1)
		for k := range planes {
			planes[k][i] = byte(v >> (8 * k))
		}
	}
	for k, p := range planes {
		coded, err := code(p)
		if err != nil {
			return nil, err
		}
		planes[k] = coded
	}
	return planes, nil
}

// code returns a plane in its Huffman code, or as it is where that is not smaller.
func code(plane []byte) ([]byte, error) {
	coded, _, err := huff0.Compress4X(plane, &huff0.Scratch{Reuse: huff0.ReusePolicyNone})
	switch {
	case errors.Is(err, huff0.ErrIncompressible), errors.Is(err, huff0.ErrUseRLE), err == nil && len(coded) >= len(plane):
		return plane, nil
	case err != nil:
		return nil, fmt.Errorf("coding %d bytes: %w", len(plane), err)
	}
	return coded, nil
}
