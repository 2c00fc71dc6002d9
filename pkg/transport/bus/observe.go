package bus

import (
	"context"

	"github.com/nats-io/nats.go"
)

// Propagator carries trace context in headers.
type Propagator interface {
	// Inject adds to header what ctx carries; nothing added means that the
	// message needs no header.
	Inject(ctx context.Context, header nats.Header)
	// Extract returns ctx with what header carries.
	Extract(ctx context.Context, header nats.Header) context.Context
}

// Observer counts. Its methods are called on hot paths and must not block.
type Observer interface {
	Published(subject string, bytes int)
	PublishFailed(subject string, err error)
	Handled(subject string, bytes int, outcome Outcome)
	// Redelivered is called before the handler when a message comes again.
	Redelivered(subject string, delivered int)
	// Rebuilt says that a receiver created its lost stream or consumer anew.
	Rebuilt(stream, consumer string)
	// Refused says that a message was dropped because it is not one that may
	// come on its subject.
	Refused(subject string)
	Panicked(subject string)
	// Buried says that a message was given up, and kept where somebody can look at it, but
	// for those beyond as many as are kept.
	Buried(subject string, why Reason)
	// Linked says what has become of the connection.
	Linked(before, now Link)
}

// Link is what a connection is.
type Link int32

// A connection is None until it is opened and when it is closed, Opening while it looks
// for a server for the first time, Connected while it has one, and Away while it looks
// for one again.
const (
	None Link = iota
	Opening
	Connected
	Away
)

// NoObserver counts nothing; embed it to implement part of Observer.
type NoObserver struct{}

// Published does nothing.
func (NoObserver) Published(string, int) {}

// PublishFailed does nothing.
func (NoObserver) PublishFailed(string, error) {}

// Handled does nothing.
func (NoObserver) Handled(string, int, Outcome) {}

// Redelivered does nothing.
func (NoObserver) Redelivered(string, int) {}

// Rebuilt does nothing.
func (NoObserver) Rebuilt(string, string) {}

// Refused does nothing.
func (NoObserver) Refused(string) {}

// Panicked does nothing.
func (NoObserver) Panicked(string) {}

// Buried does nothing.
func (NoObserver) Buried(string, Reason) {}

// Linked does nothing.
func (NoObserver) Linked(Link, Link) {}
