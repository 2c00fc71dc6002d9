package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrMalformed is of bytes that are no message, or claim what is not there.
var ErrMalformed = errors.New("malformed")

// ErrTooLarge is of what is above a bound.
var ErrTooLarge = errors.New("too large")

func malformed(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrMalformed)...)
}

// ReadSize reads how long a frame is, and refuses one that is longer than most bytes.
func ReadSize(r io.Reader, most int) (int, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return 0, err
	}
	return CheckSize(binary.BigEndian.Uint32(size[:]), most)
}

// CheckSize refuses a frame that cannot have a header, or is longer than most bytes.
func CheckSize(claimed uint32, most int) (int, error) {
	if claimed < leastFrame {
		return 0, malformed("a frame of %d bytes", claimed)
	}
	if uint64(claimed) > uint64(most) {
		return 0, fmt.Errorf("a frame of %d bytes, want at most %d: %w", claimed, most, ErrTooLarge)
	}
	return int(claimed), nil
}

// leastFrame is a number by which answers find their requests.
const leastFrame = 4

// ReadBody reads as many bytes. Memory grows with those that come, and not with those
// that were announced.
func ReadBody(r io.Reader, size int) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(min(size, firstPart))
	n, err := io.CopyN(&b, r, int64(size))
	if errors.Is(err, io.EOF) && n > 0 {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

// firstPart is what is made room for before anything has come.
const firstPart = 16 << 10

// Frame is a message with its length before it.
func Frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(message)), uint32(len(message))), message...)
}

// Header begins a request.
type Header struct {
	Key, Version int16
	Correlation  int32
}

// headerBytes are of a header without its client id.
const headerBytes = 8

// maxClientID bounds what a client calls itself.
const maxClientID = 249

// ParseHeader takes a request apart into its header and the rest.
func ParseHeader(message []byte) (h Header, body []byte, err error) {
	if len(message) < headerBytes+2 {
		return h, nil, malformed("a request of %d bytes", len(message))
	}
	h.Key, h.Version = int16(binary.BigEndian.Uint16(message)), int16(binary.BigEndian.Uint16(message[2:]))
	h.Correlation = int32(binary.BigEndian.Uint32(message[4:]))
	client := int(int16(binary.BigEndian.Uint16(message[headerBytes:])))
	body = message[headerBytes+2:]
	if client < -1 || client > maxClientID || client > len(body) {
		return h, nil, malformed("a client id of %d bytes", client)
	}
	return h, body[max(client, 0):], nil
}
