package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// Letters are the dead letters of a model.
type Letters struct {
	conn    *bus.Conn
	streams schemas.Streams
	within  time.Duration // bounds each question to the server
	last    uint64        // the newest when they were opened
	stream  uint64        // which stream they are of
}

// Open finds the stream. What comes later is not seen. A server that does not answer
// within a time, as to who lacks a right, is an error.
func Open(ctx context.Context, c *bus.Conn, s schemas.Streams, within time.Duration) (*Letters, error) {
	state, err := c.State(ctx, s.Dead().Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("there is no stream %s: no service of a model %s has run here (--model, --prefix)", s.Dead().Name, s.Subjects.Model)
	}
	if err != nil {
		return nil, err
	}
	return &Letters{c, s, within, state.Last, state.Incarnation}, nil
}

// Each calls fn for all letters, the oldest first, until it returns an error.
func (l *Letters) Each(ctx context.Context, fn func(*Letter) error) error {
	for from := uint64(1); from <= l.last; {
		m, err := l.next(ctx, from)
		if errors.Is(err, bus.ErrNoMessage) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(decode(m)); err != nil {
			return err
		}
		from = m.Sequence + 1
	}
	return nil
}

func (l *Letters) next(ctx context.Context, from uint64) (bus.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	return l.conn.Next(ctx, l.streams.Dead().Name, l.streams.Subjects.AnyDead(), from)
}

// Get returns one letter.
func (l *Letters) Get(ctx context.Context, seq uint64) (*Letter, error) {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	m, err := l.conn.Get(ctx, l.streams.Dead().Name, seq)
	if errors.Is(err, bus.ErrNoMessage) {
		return nil, fmt.Errorf("there is no letter %d (any more); dlq ls lists them", seq)
	}
	if err != nil {
		return nil, err
	}
	letter := decode(m)
	letter.id = fmt.Sprintf("dlq-%x-%d", l.stream, seq)
	return letter, nil
}

// Retry sends a letter's message again, and removes the letter. Of several at once each sends the
// same request, which is computed once.
func (l *Letters) Retry(ctx context.Context, seq uint64) (*Letter, error) {
	letter, err := l.Get(ctx, seq)
	if err != nil {
		return nil, err
	}
	if err := l.send(ctx, letter); err != nil {
		return nil, fmt.Errorf("letter %d is not sent again: %w", seq, err)
	}
	if err := l.Drop(ctx, seq); err != nil {
		return nil, fmt.Errorf("letter %d was sent again, and is still here: %w", seq, err)
	}
	return letter, nil
}

func (l *Letters) send(ctx context.Context, letter *Letter) error {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	r, err := letter.resend(l.streams.Subjects)
	if err != nil {
		return err
	}
	if err := l.check(ctx, r); err != nil {
		return err
	}
	_, err = l.conn.StoreBytes(ctx, r.msg.Subject, r.msg.Data, r.msg.Header)
	return err
}

// check looks at the log of the message's request.
func (l *Letters) check(ctx context.Context, r resend) error {
	if r.request == "" {
		return nil
	}
	m, err := l.conn.Last(ctx, l.streams.Tokens().Name, l.streams.Subjects.Token(r.request))
	if err != nil && !errors.Is(err, bus.ErrNoMessage) {
		return err
	}
	return r.mayResend(m.Data)
}

// Drop removes a letter.
func (l *Letters) Drop(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	return l.conn.Remove(ctx, l.streams.Dead().Name, seq)
}

// DropAll removes all letters that were there when they were opened.
func (l *Letters) DropAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	return l.conn.RemoveUpTo(ctx, l.streams.Dead().Name, l.last)
}
