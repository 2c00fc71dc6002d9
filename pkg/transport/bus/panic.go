package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/nats-io/nats.go"
)

// PanicError is what a handler's panic becomes at the message's border, so that
// one message does not take down the process, and its siblings after it.
type PanicError struct {
	Value any
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("panic while handling a message: %v", e.Value)
}

// Try calls handle for a message. A panic is counted, logged with its stack,
// and returned as a *PanicError, which classify.go takes for poison: the same
// message would lead to it again.
func (c *Conn) Try(subject string, handle func() error) (err error) {
	defer c.catch(subject, &err)
	return handle()
}

// Recover ends a panic of a handler that returns nothing: defer it at the
// handler's beginning, and at that of every goroutine that the handler starts.
func (c *Conn) Recover(subject string) {
	if value := recover(); value != nil {
		c.panicked(subject, value)
	}
}

// Subscribe calls handle for what comes on a subject of core NATS, and bears its
// panics. Who subscribes with the same group shares the messages; "" is none.
func (c *Conn) Subscribe(subject, group string, handle nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := c.nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		defer c.Recover(m.Subject)
		handle(m)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	return sub, nil
}

// Listening returns when the server knows of all subscriptions so far: nothing from now
// on is missed. what says for people what they are for.
func (c *Conn) Listening(ctx context.Context, what string) error {
	return c.Persist(ctx, what, c.nc.FlushWithContext)
}

// catch is deferred; a panic becomes *err.
func (c *Conn) catch(subject string, err *error) {
	if value := recover(); value != nil {
		c.panicked(subject, value)
		*err = &PanicError{value}
	}
}

func (c *Conn) panicked(subject string, value any) {
	c.obs.Panicked(subject)
	c.log.Error("a message's handler panicked; the message is given up", "subject", subject, "panic", value, "stack", string(debug.Stack()))
}

// IsPanic reports whether an error is a handler's panic.
func IsPanic(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}
