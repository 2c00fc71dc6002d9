package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoMessage says that a stream has no such message.
var ErrNoMessage = errors.New("no such message in the stream")

// Stored is a message of a stream.
type Stored struct {
	Subject  string
	Data     []byte
	Sequence uint64
	// Incarnation is the stream's, where Follow read it.
	Incarnation uint64
	// Time is the server's, from when the message was stored.
	Time time.Time
}

// readTimeout bounds one attempt to read; a server that is starting drops requests.
const readTimeout = 500 * time.Millisecond

// Last reads the newest message of a subject from the stream's leader, so it
// sees every acknowledged one. It tries until ctx ends.
func (c *Conn) Last(ctx context.Context, stream, subject string) (Stored, error) {
	return c.get(ctx, stream, getRequest{LastFor: subject})
}

// Next reads a subject's first message from a sequence on, from the leader.
func (c *Conn) Next(ctx context.Context, stream, subject string, from uint64) (Stored, error) {
	return c.get(ctx, stream, getRequest{Seq: max(from, 1), NextFor: subject})
}

type getRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

type getResponse struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

func (c *Conn) get(ctx context.Context, stream string, r getRequest) (Stored, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return Stored{}, fmt.Errorf("encoding a request to stream %s: %w", stream, err)
	}
	subject := apiPrefix(c.js) + "STREAM.MSG.GET." + stream
	var out Stored
	err = c.insist(ctx, "reading stream "+stream, func() (err error) {
		out, err = c.getOnce(ctx, subject, body)
		return err
	})
	return out, err
}

func wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, err)
}

func (c *Conn) getOnce(ctx context.Context, subject string, body []byte) (Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	if errors.Is(err, context.DeadlineExceeded) {
		return Stored{}, nats.ErrTimeout
	}
	if err != nil {
		return Stored{}, err
	}
	return parseStored(m.Data)
}

// parseStored reads a server's answer to a request for a message.
func parseStored(data []byte) (Stored, error) {
	var r getResponse
	if err := json.Unmarshal(data, &r); err != nil {
		return Stored{}, fmt.Errorf("decoding the answer: %w", err)
	}
	switch {
	case r.Error != nil && r.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Stored{}, ErrNoMessage
	case r.Error != nil:
		return Stored{}, r.Error
	case r.Message == nil:
		return Stored{}, errors.New("answer without a message")
	}
	return Stored{Subject: r.Message.Subject, Data: r.Message.Data, Sequence: r.Message.Seq, Time: r.Message.Time}, nil
}

// Direct reads the newest message of a subject, whichever server has it, with one request: it may
// be behind the stream's leader. It tries once; none is ErrNoMessage.
func (c *Conn) Direct(ctx context.Context, stream, subject string) (*nats.Msg, error) {
	if err := checkSubject(subject, ""); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, apiPrefix(c.js)+"DIRECT.GET."+stream+"."+subject, nil)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", subject, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		return m, nil
	case "404":
		return nil, ErrNoMessage
	default:
		return nil, fmt.Errorf("reading %s: the server answers %s %s", subject, status, m.Header.Get("Description"))
	}
}
