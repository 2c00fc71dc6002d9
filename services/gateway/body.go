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
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/services/gateway/openai"
)

const (
	// bodyBytes bounds what bodies take that are being read, beside the first smallBody bytes of
	// each. A client takes room only by what it has sent.
	bodyBytes, smallBody = 256 << 20, 64 << 10
)

// body reads a call's body, within bounds of size, of time, and of what all bodies take
// together; done lets go of it.
func (d *Door) body(c *call) (data []byte, done func(), err error) {
	if c.r.ContentLength > d.MaxBody { // it need not be sent
		c.w.Header().Set("Connection", "close")
		return nil, func() {}, bodyError(&http.MaxBytesError{Limit: d.MaxBody})
	}
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Now().Add(d.Stall))        // a recorder in tests has none
	defer func() { _ = control.SetReadDeadline(time.Time{}) }() // else the client would seem to leave
	taken := int64(0)
	done = func() { d.bodies.Release(taken) }
	defer func() {
		if err != nil {
			done()
		}
	}()
	if codingOf(c.r) == "zstd" { // which takes a window while it is read
		if !d.bodies.TryAcquire(zstdWindow) {
			return nil, done, errBodies
		}
		taken = zstdWindow
	}
	from, err := d.unpacked(c)
	if err != nil {
		return nil, done, err
	}
	defer func() { _ = from.Close() }() // it is read, or refused
	for data = make([]byte, 0, smallBody/16); ; {
		if len(data) == cap(data) {
			more := int64(cap(data))
			if len(data) >= smallBody {
				if !d.bodies.TryAcquire(more) {
					return nil, done, errBodies
				}
				taken += more
			}
			data = append(make([]byte, 0, 2*more), data...)
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return bytes.TrimPrefix(data, byteOrderMark), done, nil
		case err != nil:
			return nil, done, bodyError(err)
		}
	}
}

var errBodies = &client.Error{Code: client.CodeOverloaded, RetryAfter: time.Second, Message: "the bodies that are being read take all the memory that they may"}

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
		var z *zstd.Decoder
		if z, err = zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true)); err == nil {
			out = z.IOReadCloser()
		}
	default:
		c.w.Header().Set("Accept-Encoding", "gzip, deflate, zstd")
		return nil, &openai.Error{Status: http.StatusUnsupportedMediaType, Type: openai.InvalidRequest, Code: client.CodeBadRequest, Message: fmt.Sprintf("Content-Encoding %.40q is not read; it can be gzip, deflate or zstd", coding)}
	}
	if err != nil {
		return nil, bodyError(err)
	}
	return http.MaxBytesReader(c.w, unpacking{out}, d.MaxBody), nil
}

// zstdWindow bounds what a body of zstd takes while it is read, as browsers do.
const zstdWindow = 8 << 20

// errPacked says that a body is not what its Content-Encoding says.
var errPacked = errors.New("the body is not what Content-Encoding says")

// unpacking tells what is wrong with packed bytes from what is wrong with their connection.
type unpacking struct{ io.ReadCloser }

// Read implements io.Reader.
func (u unpacking) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if isPacked(err) {
		err = fmt.Errorf("%w: %w", errPacked, err)
	}
	return n, err
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
