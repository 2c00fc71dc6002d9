package safetensors

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"golang.org/x/sync/errgroup"
)

// A packed file holds a safetensors file with nothing lost, and bf16 weights in two
// thirds of the bytes. All numbers are little endian:
//
//	8 bytes   packedMagic
//	8 bytes   the length of the plain file
//	chunks    in the order of the plain file's bytes:
//	  1 byte    width: bytes of an element, 1, 2, 4 or 8
//	  4 bytes   elements, 1 to chunkElements
//	  4 bytes   CRC-32C of the chunk's plain bytes
//	  4 bytes   for each of the width planes: how many bytes it has here
//	  …         the planes
//
// The bits of each element are turned left by one, so that a bf16's or float32's eight
// bits of exponent are its highest byte. Plane i has byte i of every element, the lowest
// one first: as it is where it has a byte for each element, else in the Huffman code of
// Zstandard's literals (RFC 8878, 4.2: tree and four streams). Weights' exponents are few
// and their other bits are noise, so neither matches nor longer codes would save more.
const (
	packedMagic = "SWPACK1\n"
	// PackedSuffix follows a plain file's name in that of its packed one.
	PackedSuffix = ".packed"

	packedPrefix  = len(packedMagic) + 8
	chunkPrefix   = 1 + 4 + 4
	chunkElements = 128 << 10
	// mostPacked is how often smaller than the plain file a packed one can be: a code
	// has at least one bit a byte.
	mostPacked = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// IsPacked reports whether data begin as a packed file does.
func IsPacked(data []byte) bool {
	return len(data) >= len(packedMagic) && string(data[:len(packedMagic)]) == packedMagic
}

// chunk is a piece of a packed file, whose plain bytes begin at byte at of the plain one.
type chunk struct {
	at     int
	width  int
	count  int
	crc    uint32
	planes [][]byte
}

// Unpack returns the plain file of a packed one. The memory is allocated once the
// chunks were seen to add up to it.
func Unpack(data []byte) ([]byte, error) {
	chunks, size, err := chunksOf(data)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, size)
	return plain, unpackInto(plain, chunks)
}

// UnpackOutside is Unpack into memory outside of Go's heap, so that the collector does
// not let the heap grow by as much again. The returned function gives it back.
func UnpackOutside(data []byte) ([]byte, func() error, error) {
	chunks, size, err := chunksOf(data)
	if err != nil {
		return nil, nil, err
	}
	plain, release, err := allocate(size)
	if err != nil {
		return nil, nil, err
	}
	if err := unpackInto(plain, chunks); err != nil {
		_ = release() // the first error is the one that matters
		return nil, nil, err
	}
	return plain, release, nil
}

// unpackInto fills plain, with as many goroutines as there are processors.
func unpackInto(plain []byte, chunks []chunk) error {
	var all errgroup.Group
	for _, part := range split(chunks) {
		all.Go(func() error {
			var u unpacker
			for _, c := range part {
				if err := u.chunk(plain[c.at:][:c.width*c.count], c); err != nil {
					return fmt.Errorf("packed chunk of bytes %d to %d: %w; get the file again", c.at, c.at+c.width*c.count, err)
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// chunksOf reads how a packed file is divided, and checks that the chunks make the
// length that it states.
func chunksOf(data []byte) ([]chunk, int, error) {
	if !IsPacked(data) || len(data) < packedPrefix {
		return nil, 0, fmt.Errorf("%d bytes that do not begin with %q and a length: not a packed file, or truncated", len(data), packedMagic)
	}
	size := binary.LittleEndian.Uint64(data[len(packedMagic):])
	if size > mostPacked*uint64(len(data)) {
		return nil, 0, fmt.Errorf("the length at byte %d is %d, more than %d times that of the packed file: file is damaged or truncated", len(packedMagic), size, mostPacked)
	}
	var chunks []chunk
	plain := 0
	for at := packedPrefix; at < len(data); {
		c, n, err := readChunk(data[at:])
		if err != nil {
			return nil, 0, fmt.Errorf("packed chunk at byte %d: %w", at, err)
		}
		c.at = plain
		chunks = append(chunks, c)
		plain += c.width * c.count
		at += n
	}
	if uint64(plain) != size {
		return nil, 0, fmt.Errorf("the packed chunks hold %d bytes, not the %d that byte %d states: file is truncated or damaged", plain, size, len(packedMagic))
	}
	return chunks, plain, nil
}

// readChunk reads the chunk at the beginning of data, and returns its length there.
func readChunk(data []byte) (c chunk, n int, err error) {
	if len(data) < chunkPrefix {
		return c, 0, fmt.Errorf("%d bytes are left, fewer than the %d of a chunk's beginning: file is truncated", len(data), chunkPrefix)
	}
	c.width, c.crc = int(data[0]), binary.LittleEndian.Uint32(data[5:])
	count := binary.LittleEndian.Uint32(data[1:])
	if c.width != 1 && c.width != 2 && c.width != 4 && c.width != 8 {
		return c, 0, fmt.Errorf("its width is %d; only 1, 2, 4 and 8 are", c.width)
	}
	if count == 0 || count > chunkElements {
		return c, 0, fmt.Errorf("it has %d elements; 1 to %d are allowed", count, chunkElements)
	}
	c.count, n = int(count), chunkPrefix+4*c.width
	if len(data) < n {
		return c, 0, fmt.Errorf("the lengths of its planes end outside the file: file is truncated")
	}
	for i := range c.width {
		length := binary.LittleEndian.Uint32(data[chunkPrefix+4*i:])
		if length == 0 || length > count || uint64(length) > uint64(len(data)-n) {
			return c, 0, fmt.Errorf("plane %d has %d bytes, of %d elements and %d bytes that are left", i, length, count, len(data)-n)
		}
		c.planes = append(c.planes, data[n:][:length])
		n += int(length)
	}
	return c, n, nil
}
