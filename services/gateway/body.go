package gateway

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

const (
	// bodyBytes, or bodiesOf the largest, bound what bodies take that are being read, beside the first
	// smallBody bytes of each, and what is made of them until their answers begin. A client takes room
	// only by what it has sent.
	bodyBytes, bodiesOf, smallBody = 128 << 20, 32, 64 << 10
	// leastRate is how many bytes a second a body comes with at least, behind its first Stall; in
	// quietPart of that some come.
	leastRate, quietPart = 64 << 10, 3
	// keptPart is of what reading a body takes the part that its prompts have.
	keptPart = 4
	// perShown is how often what the events of a response repeat is held until the last one.
	perShown = 4
)

// paced reads a body within a time that grows with what has come.
type paced struct {
	io.ReadCloser
	control *http.ResponseController
	conn    *counted // nil: it has other requests as well
	stall   time.Duration
	began   time.Time
	came    int64
}

// Read reads what has come, or ends when the client is too slow. Meanwhile its connection counts as idle.
func (p *paced) Read(to []byte) (int, error) {
	end := p.began.Add(p.stall + time.Duration(p.came)*time.Second/leastRate)
	if quiet := time.Now().Add(p.stall / quietPart); quiet.Before(end) {
		end = quiet
	}
	_ = p.control.SetReadDeadline(end) // a recorder in tests has none
	if p.conn != nil {
		p.conn.of.note(p.conn, http.StateIdle)
		defer p.conn.of.note(p.conn, http.StateActive)
	}
	n, err := p.ReadCloser.Read(to)
	p.came += int64(n)
	return n, err //nolint:wrapcheck // bodyError says what it is
}

// room is what calls have of the memory for bodies. A tenant has its share.
type room struct {
	of   *admission.Portions
	who  string
	most int64

	mu  sync.Mutex
	has int64
}

// roomOf is the room that a client's call begins with, which is none.
func (d *Door) roomOf(who string) *room {
	return &room{of: d.bodies, who: who, most: max(bodyBytes, bodiesOf*d.MaxBody) / 2}
}

// take takes more of it, or says that there is none.
func (r *room) take(bytes int64) error {
	if bytes > r.most {
		return &client.Error{Code: client.CodePayloadTooLarge, Message: fmt.Sprintf("the request takes %d MiB of memory on its way, and one may take %d: ask for less at a time", bytes>>20, r.most>>20)}
	}
	if !r.of.Take(r.who, bytes) {
		return errBodies
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.has += bytes
	return nil
}

// keep gives back all but so much.
func (r *room) keep(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if more := r.has - bytes; more > 0 {
		r.of.Give(r.who, more)
		r.has = bytes
	}
}

// body reads a call's body, within bounds of size, of time, and of what all bodies take
// together, which its call has until it is done.
func (d *Door) body(c *call) (data []byte, err error) {
	if c.r.ContentLength > d.MaxBody { // it need not be sent
		c.w.Header().Set("Connection", "close")
		return nil, bodyError(&http.MaxBytesError{Limit: d.MaxBody})
	}
	if !d.reading.Take(c.room.who, 1) {
		return nil, errBodies
	}
	defer d.reading.Give(c.room.who, 1)
	control := http.NewResponseController(c.w)
	c.r.Body = &paced{ReadCloser: c.r.Body, control: control, conn: connOf(c.r), stall: d.Stall, began: time.Now()}
	from, err := d.unpacked(c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // it is read, or refused
	for data = make([]byte, 0, smallBody/16); ; {
		if more := cap(data); len(data) == more {
			if more >= smallBody {
				if err := c.room.take(int64(more)); err != nil {
					return nil, err
				}
			}
			data = append(make([]byte, 0, 2*more), data...)
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return d.whole(c, control, data)
		case err != nil:
			return nil, bodyError(err)
		}
	}
}

// whole returns a body that was read to its end, if nothing follows.
func (d *Door) whole(c *call, control *http.ResponseController, data []byte) ([]byte, error) {
	if _, err := c.r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return nil, bodyError(errPacked) // what follows its end would be waited for without a bound
	}
	_ = control.SetReadDeadline(time.Time{}) // else the client would seem to leave
	return bytes.TrimPrefix(data, byteOrderMark), nil
}

var errBodies = &client.Error{Code: client.CodeOverloaded, RetryAfter: time.Second, Message: "bodies of requests take all the memory that they may, or all that one tenant may have of it"}

// codingOf is how a body is packed.
func codingOf(r *http.Request) string {
	return strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
}

// byteOrderMark begins bodies of some clients.
var byteOrderMark = []byte("\ufeff")

// unpacked is a call's body as its client has packed it; packed or not, it has at most MaxBody bytes.
func (d *Door) unpacked(c *call) (io.ReadCloser, error) {
	from := http.MaxBytesReader(c.w, c.r.Body, d.MaxBody)
	coding := codingOf(c.r)
	var out io.ReadCloser
	var err error
	switch coding {
	case "", "identity":
		return from, nil
	case "gzip", "x-gzip":
		out, err = gzip.NewReader(from)
	case "deflate":
		out, err = zlib.NewReader(from)
	case "zstd":
		if err := c.room.take(zstdWindow); err != nil { // while it is read
			return nil, err
		}
		var z *zstd.Decoder
		if z, err = zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true)); err == nil {
			out = z.IOReadCloser()
		}
	default:
		c.w.Header().Set("Accept-Encoding", "gzip, deflate, zstd")
		return nil, &openai.Error{Status: http.StatusUnsupportedMediaType, Type: openai.InvalidRequest, Code: client.CodeBadRequest, Message: fmt.Sprintf("Content-Encoding %.40q is not read; it can be gzip, deflate or zstd", coding)}
	}
	if err != nil {
		return nil, bodyError(unpackError(err, c.r.Body))
	}
	return http.MaxBytesReader(c.w, unpacking{out, c.r.Body}, d.MaxBody), nil
}

// zstdWindow bounds what a body of zstd takes while it is read, as browsers do.
const zstdWindow = 8 << 20

// errPacked says that a body is not what its Content-Encoding says.
var errPacked = errors.New("the body is not what Content-Encoding says")

// unpacking tells what is wrong with packed bytes from what is wrong with their connection.
type unpacking struct {
	io.ReadCloser
	packed io.Reader
}

// Read implements io.Reader.
func (u unpacking) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unpackError(err, u.packed)
	}
	return n, err
}

// unpackError says that packed bytes are wrong, if they are: also where they end too early, and
// the body that they are does not.
func unpackError(err error, packed io.Reader) error {
	short := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	if short {
		_, end := packed.Read(make([]byte, 1))
		short = errors.Is(end, io.EOF)
	}
	if short || isPacked(err) {
		return fmt.Errorf("%w: %w", errPacked, err)
	}
	return err
}

// isPacked reports whether packed bytes are wrong.
func isPacked(err error) bool {
	var deflate flate.CorruptInputError
	for _, one := range []error{gzip.ErrHeader, gzip.ErrChecksum, zlib.ErrHeader, zlib.ErrChecksum, zlib.ErrDictionary, zstd.ErrMagicMismatch, zstd.ErrWindowSizeExceeded, zstd.ErrDecoderSizeExceeded, zstd.ErrCRCMismatch, zstd.ErrReservedBlockType} {
		if errors.Is(err, one) {
			return true
		}
	}
	return errors.As(err, &deflate)
}

func bodyError(err error) error {
	if errors.Is(err, errPacked) || isPacked(err) {
		return openai.Bad("", "the body is not what Content-Encoding says: %v", err)
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &client.Error{Code: client.CodePayloadTooLarge, Message: fmt.Sprintf("the body has more than %d bytes (--http-max-body)", large.Limit)}
	}
	return &openai.Error{Status: http.StatusRequestTimeout, Type: openai.InvalidRequest, Code: client.CodeBadRequest, Message: "the body did not come whole"}
}
