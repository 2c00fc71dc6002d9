package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
)

// buffers are for marshalling: the client copies what it publishes before it
// returns, so a buffer can be used again at once. Larger ones than
// keptBuffer are left to the collector.
var buffers sync.Pool // of *[]byte

const keptBuffer = 1 << 20

func getBuffer() *[]byte {
	if b, ok := buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func putBuffer(b *[]byte) {
	if cap(*b) <= keptBuffer {
		buffers.Put(b)
	}
}

var headers sync.Pool // of nats.Header

func getHeader() nats.Header {
	if h, ok := headers.Get().(nats.Header); ok {
		return h
	}
	return nats.Header{}
}

// Send publishes a message without waiting for anything: whoever listens gets
// it. header may be nil.
func (c *Conn) Send(ctx context.Context, subject string, msg proto.Message, header nats.Header) error {
	buf := getBuffer()
	defer putBuffer(buf)
	data, err := proto.MarshalOptions{}.MarshalAppend((*buf)[:0], msg)
	if err != nil {
		return fmt.Errorf("encoding a message for %s: %w", subject, err)
	}
	*buf = data
	return c.SendBytes(ctx, subject, data, header)
}

// SendBytes publishes a body that is already encoded; it is copied.
func (c *Conn) SendBytes(ctx context.Context, subject string, data []byte, header nats.Header) error {
	return c.publish(ctx, subject, "", data, header)
}

func (c *Conn) publish(ctx context.Context, subject, reply string, data []byte, header nats.Header) error {
	if c.prop != nil && header == nil {
		pooled := getHeader()
		defer func() { clear(pooled); headers.Put(pooled) }()
		if c.prop.Inject(ctx, pooled); len(pooled) > 0 {
			header = pooled
		}
	} else if c.prop != nil {
		c.prop.Inject(ctx, header)
	}
	return c.SendMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data, Header: header})
}

// SendMsg publishes a message as it is, without a trace. The message is copied.
func (c *Conn) SendMsg(m *nats.Msg) error {
	err := c.check(m)
	if err == nil {
		if err = c.nc.PublishMsg(m); err != nil {
			err = fmt.Errorf("publishing to %s: %w", m.Subject, err)
		}
	}
	if err != nil {
		c.obs.PublishFailed(m.Subject, err)
		return err
	}
	c.obs.Published(m.Subject, len(m.Data))
	return nil
}

// check finds what the server would answer by closing the connection.
func (c *Conn) check(m *nats.Msg) error {
	if err := checkSubject(m.Subject, m.Reply); err != nil {
		return err
	}
	return c.checkSize(m.Subject, m.Data, m.Header)
}

// post publishes what belongs to JetStream's protocol, which is not counted.
func (c *Conn) post(subject, reply string, data []byte) error {
	if err := checkSubject(subject, reply); err != nil {
		return err
	}
	return c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data})
}

// checkSize finds a message that is larger than the server takes.
func (c *Conn) checkSize(subject string, data []byte, header nats.Header) error {
	size := int64(len(data))
	if len(header) > 0 {
		size += int64(len("NATS/1.0\r\n\r\n"))
	}
	for key, values := range header {
		for _, v := range values {
			size += int64(len(key) + len(": \r\n") + len(v))
		}
	}
	if limit := c.limit.Load(); size > limit {
		return &TooLargeError{Subject: subject, Size: size, Limit: limit}
	}
	return nil
}

const (
	// ackTimeout is how long one attempt waits for a stream's acknowledgement.
	ackTimeout   = 2 * time.Second
	storeRetry   = 50 * time.Millisecond
	maxStoreWait = 500 * time.Millisecond
)

// Store publishes into a stream and returns the message's sequence there. It
// tries again after lost connections and acknowledgements until ctx ends, so
// the message may be stored twice: a Nats-Msg-Id header prevents that for two
// minutes. IsFull tells a full stream from other errors.
func (c *Conn) Store(ctx context.Context, subject string, msg proto.Message, header nats.Header) (seq uint64, err error) {
	data, err := proto.Marshal(msg)
	if err != nil {
		return 0, fmt.Errorf("encoding a message for %s: %w", subject, err)
	}
	return c.StoreBytes(ctx, subject, data, header)
}

// StoreBytes is Store for what is encoded already.
func (c *Conn) StoreBytes(ctx context.Context, subject string, data []byte, header nats.Header) (seq uint64, err error) {
	err = c.insist(ctx, "storing a message in "+subject, func() (err error) {
		seq, err = c.storeOnce(ctx, subject, data, header)
		return err
	})
	return seq, err
}

// insist tries what passing errors end again, with growing pauses and as soon as the
// connection is back, until it works, meets another error, or ctx or the connection's
// patience ends. Its error begins with the act.
func (c *Conn) insist(ctx context.Context, act string, try func() error) error {
	f := c.futile()
	for pauses := pause.Between(storeRetry, maxStoreWait); ; {
		err := try()
		switch {
		case err == nil || ctx.Err() == nil && !transient(err):
			return wrap(act, err)
		case ctx.Err() == nil && f.tooLong():
			return f.wrap(act, err)
		}
		_ = c.pause(ctx, pauses.Next()) // of a connection that is closed for good the next try says so
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w (%w)", act, context.Cause(ctx), err)
		}
	}
}

type storeResult struct {
	seq uint64
	err error
}

func (c *Conn) storeOnce(ctx context.Context, subject string, data []byte, header nats.Header) (uint64, error) {
	result := make(chan storeResult, 1)
	err := c.StoreAsync(ctx, subject, data, header, func(seq uint64, err error) { result <- storeResult{seq, err} })
	if err != nil {
		return 0, err
	}
	select {
	case r := <-result:
		return r.seq, r.err
	case <-ctx.Done():
		return 0, ErrAckLost
	}
}

// StoreAsync publishes into a stream and returns; done is called once, on the
// goroutine that takes in all acknowledgements, so it must not block. When
// StoreAsync returns an error, done is not called. Without an acknowledgement
// in time, or when the connection is lost, the error is transient and the
// message may be stored or not. data is copied.
func (c *Conn) StoreAsync(ctx context.Context, subject string, data []byte, header nats.Header, done func(seq uint64, err error)) error {
	id, reply, err := c.acks.add(subject, done)
	if err != nil {
		return err
	}
	if err := c.publish(ctx, subject, reply, data, header); err != nil {
		if !c.acks.drop(id) {
			return nil // failed by a disconnect meanwhile: done was called
		}
		return err
	}
	return nil
}

// Transient reports whether trying the same again can succeed by itself: a lost
// connection or acknowledgement, a server without a leader.
func Transient(err error) bool { return transient(err) || errors.Is(err, nats.ErrConnectionClosed) }
