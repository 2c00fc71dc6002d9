package bus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/nats-io/nats.go"
)

// A client reads a message's headers into a map as it comes, before anything else of the
// connection: a million short lines hold it up for half a second. So what comes from outside
// goes through a sieve first, which knows the protocol's frames and nothing else, and leaves
// of a message with too many headers that it came.

const (
	// cutHeader is all that a message has which was cut.
	cutHeader = "Switchyard-Cut"
	// maxHeaderBytes is what JetStream stores of a message's headers at most.
	maxHeaderBytes = 64 << 10
	// longestLine is more than a frame's first line has, a server's INFO aside.
	longestLine = 64 << 10
)

var cutHead = []byte("NATS/1.0\r\n" + cutHeader + ": 1\r\n\r\n")

// Cut says that a message's headers were too many to be read, and nothing else of it was.
func Cut(m *nats.Msg) bool { return len(m.Header) == 1 && m.Header[cutHeader] != nil }

// sieve is a server's connection, read through the sieve.
type sieve struct {
	net.Conn
	in       *bufio.Reader
	maxLines int

	ready []byte // read, and to be passed on
	rest  int64  // how much of the frame is to be passed on as it comes
	head  []byte // of the frame: its first line and its headers
}

func newSieve(c net.Conn, maxLines int) *sieve {
	return &sieve{Conn: c, in: bufio.NewReaderSize(c, longestLine), maxLines: maxLines}
}

func (s *sieve) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(s.ready) == 0 && s.rest == 0 {
		if err := s.frame(); err != nil {
			return 0, err
		}
	}
	if len(s.ready) > 0 {
		n = copy(p, s.ready)
		s.ready = s.ready[n:]
		return n, nil
	}
	n, err = s.in.Read(p[:min(int64(len(p)), s.rest)])
	s.rest -= int64(n)
	return n, err
}

// frame takes in the beginning of the next frame.
func (s *sieve) frame() error {
	line, err := s.in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	s.head = append(s.head[:0], line...)
	s.ready = s.head
	f, ok := parseFrame(line)
	if !ok {
		return nil // it has no body, or is for the client to refuse
	}
	if f.header == 0 {
		s.rest = f.total + 2
		return nil
	}
	return s.sift(f)
}

// sift takes in a frame's headers, or leaves the frame out but for its first line.
func (s *sieve) sift(f frame) error {
	if f.header <= maxHeaderBytes {
		from := len(s.head)
		s.head = append(s.head, make([]byte, f.header)...)
		if _, err := io.ReadFull(s.in, s.head[from:]); err != nil {
			return err
		}
		s.ready, s.rest = s.head, f.total-f.header+2
		if bytes.Count(s.head[from:], []byte{'\n'}) <= s.maxLines+2 { // the version's line, and the empty one
			return nil
		}
		f.total -= f.header
	}
	if err := s.discard(f.total + 2); err != nil {
		return err
	}
	s.rest = 0
	s.head = fmt.Appendf(s.head[:0], "%s %d %d\r\n%s\r\n", f.to, len(cutHead), len(cutHead), cutHead)
	s.ready = s.head
	return nil
}

func (s *sieve) discard(n int64) error {
	for n > 0 {
		some, err := s.in.Discard(int(min(n, longestLine)))
		if err != nil {
			return err
		}
		n -= int64(some)
	}
	return nil
}

// frame is the first line of a message's frame.
type frame struct {
	to            string // up to the sizes
	header, total int64
}

// parseFrame reads "MSG subject sid [reply] total" and "HMSG subject sid [reply] header total".
func parseFrame(line []byte) (f frame, ok bool) {
	sizes := 0
	switch {
	case bytes.HasPrefix(line, []byte("MSG ")):
		sizes = 1
	case bytes.HasPrefix(line, []byte("HMSG ")):
		sizes = 2
	default:
		return f, false
	}
	rest, ended := bytes.CutSuffix(line, []byte("\r\n"))
	if f.total, rest, ok = lastNumber(rest); !ok || !ended || sizes == 1 {
		return f, ok && ended
	}
	f.header, rest, ok = lastNumber(rest)
	f.to = string(rest)
	return f, ok && f.header > 0 && f.header <= f.total
}

// lastNumber cuts a line's last word off, which is a size.
func lastNumber(line []byte) (n int64, rest []byte, ok bool) {
	at := bytes.LastIndexByte(line, ' ') + 1
	if at == 0 {
		return 0, nil, false
	}
	size, err := strconv.ParseUint(string(line[at:]), 10, 31)
	return int64(size), line[:at-1], err == nil
}
