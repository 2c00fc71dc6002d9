package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs of batches.
const (
	plain = iota
	gzipped
	snappied
	lz4ed
	zstded
)

const (
	// MaxPlain bounds a batch without its compression.
	MaxPlain = 2 << 20
	// maxRatio is how often smaller a batch may be than what it holds, if that is not
	// little. Samples of loads are some ten times smaller.
	maxRatio = 64
	little   = 64 << 10
	// maxWindow is what zstd's decoders are to have room for by its specification.
	maxWindow = 8 << 20
)

// unpacking bounds how much is unpacked at a time, and with that the memory for it: a
// decoder of zstd has room for its window. A decoder is made when it is needed.
var unpacking = make(chan *zstd.Decoder, 2)

func init() {
	for range cap(unpacking) {
		unpacking <- nil
	}
}

func unpack(codec int, packed []byte) ([]byte, error) {
	if codec == plain {
		return packed, nil
	}
	most := min(MaxPlain, max(little, maxRatio*len(packed)))
	d := <-unpacking
	defer func() { unpacking <- d }()
	var r io.Reader
	var err error
	switch codec {
	case gzipped:
		r, err = gzip.NewReader(bytes.NewReader(packed))
	case snappied:
		return unsnappy(packed, most)
	case lz4ed:
		r = lz4.NewReader(bytes.NewReader(packed))
	case zstded:
		if d == nil {
			if d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
				return nil, err
			}
		}
		r, err = d, d.Reset(bytes.NewReader(packed))
		defer func() { _ = d.Reset(nil) }() // it lets go of what it read
	default:
		return nil, malformed("compression %d", codec)
	}
	if err != nil {
		return nil, malformed("unpacking a batch: %v", err)
	}
	return readAtMost(r, most)
}

func readAtMost(r io.Reader, most int) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if len(out) > most {
		return nil, tooLarge(most)
	}
	if err != nil {
		return nil, malformed("unpacking a batch: %v", err)
	}
	return out, nil
}

func tooLarge(most int) error {
	return fmt.Errorf("a batch of more than %d bytes without its compression: %w", most, ErrTooLarge)
}

// framed begins what Java's clients make of Snappy: blocks, each after its length.
var framed = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// framedHead is that with two numbers of versions.
const framedHead = 16

// unsnappy wants each block's length before it makes room for it.
func unsnappy(packed []byte, most int) (out []byte, err error) {
	if !bytes.HasPrefix(packed, framed) || len(packed) < framedHead {
		return unsnappyBlock(nil, packed, most)
	}
	for rest := packed[framedHead:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, malformed("a Snappy block without a length")
		}
		n := binary.BigEndian.Uint32(rest)
		if rest = rest[4:]; uint64(n) > uint64(len(rest)) {
			return nil, malformed("a Snappy block of %d bytes where %d are left", n, len(rest))
		}
		if out, err = unsnappyBlock(out, rest[:n], most); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return out, nil
}

func unsnappyBlock(out, block []byte, most int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, malformed("unpacking a batch: %v", err)
	}
	if n > most-len(out) {
		return nil, tooLarge(most)
	}
	held, err := snappy.Decode(nil, block)
	if err != nil {
		return nil, malformed("unpacking a batch: %v", err)
	}
	return append(out, held...), nil
}
