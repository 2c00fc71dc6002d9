package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

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
	from := http.MaxBytesReader(c.w, c.r.Body, d.MaxBody)
	for data = make([]byte, 0, smallBody/16); ; {
		if len(data) == cap(data) {
			more := int64(cap(data))
			if len(data) >= smallBody {
				if !d.bodies.TryAcquire(more) {
					return nil, done, &client.Error{Code: client.CodeOverloaded, RetryAfter: time.Second, Message: "the bodies that are being read take all the memory that they may"}
				}
				taken += more
			}
			data = append(make([]byte, 0, 2*more), data...)
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, done, nil
		case err != nil:
			return nil, done, bodyError(err)
		}
	}
}

func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &client.Error{Code: client.CodePayloadTooLarge, Message: fmt.Sprintf("the body has more than %d bytes (--http-max-body)", large.Limit)}
	}
	return &openai.Error{Status: http.StatusRequestTimeout, Type: openai.InvalidRequest, Code: client.CodeBadRequest, Message: "the body did not come whole"}
}
