package transfer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Transfer is a way of moving rows to a function and what it computed to an aggregator.
type Transfer interface {
	// Scatter sends a dispatch, which is the transfer's from then on.
	Scatter(ctx context.Context, to Address, d *pb.Dispatch) error
	// Serve gets the rows of a dispatch, has them computed, and sends what comes of it to an
	// aggregator's subject. again says that another host may have begun with it.
	Serve(ctx context.Context, to string, d *pb.Dispatch, again bool, compute Compute) error
	// Gather is a partial with what the message has not.
	Gather(ctx context.Context, p *pb.Partial) (*pb.Partial, error)
}

// Address is where a dispatch goes.
type Address struct {
	Subject, Function string
	// Replica tells the dispatches of a group for one function apart, from 0.
	Replica int
}

// Compute computes a dispatch whose rows are all there, for which it waited so long, and hands on
// what comes of it: that is valid until then returns.
type Compute func(ctx context.Context, d *pb.Dispatch, waited time.Duration, then func(*pb.Partial) error) error

// Sender sends messages; a *bus.Hop does.
type Sender interface {
	Send(ctx context.Context, subject string, msg proto.Message) error
}

// Objects keep bytes for a while, by name.
type Objects interface {
	// Put stores an object with its digest, in place of one of that name.
	Put(ctx context.Context, name string, data []byte, sum Sum) error
	// Get returns an object of at most so many bytes that is what its digest says, with that.
	Get(ctx context.Context, name string, most int) ([]byte, Sum, error)
	Remove(ctx context.Context, group string) error
}

// Errors of objects.
var (
	// ErrMissing says that an object is not there.
	ErrMissing = errors.New("the object is not in the store: it was removed, or has not come yet")
	// ErrCorrupt says that an object is not what its digest says.
	ErrCorrupt = errors.New("the object does not have the digest that it was stored with")
	// ErrFull says that there is no room for an object.
	ErrFull = errors.New("the store of rows is full")
	// ErrNoStore says that nobody stores objects: there is no such stream, this user may not use
	// it, or it does not answer.
	ErrNoStore = errors.New("no store of rows answers")
)

// Lost reports whether rows or outputs could not be had, though nothing is wrong with the message that
// names them: whoever issues the rows again gets them.
func Lost(err error) bool {
	return errors.Is(err, ErrMissing) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNoStore)
}

// Stages are where rows are moved.
const (
	Scatter = "scatter" // a gate sends or stores rows
	Fetch   = "fetch"   // a host gets them
	Store   = "store"   // a host sends or stores outputs
	Gather  = "gather"  // an aggregator gets them
)

// Observer counts; its methods are called from several goroutines.
type Observer interface {
	// Moved says that a stage has moved so many bytes in that time.
	Moved(mode pb.TransferMode, stage string, bytes int, took time.Duration)
	// FellBack says that rows planned in a mode went in another one: "payload", "full",
	// "unavailable" or "memory".
	FellBack(from, to pb.TransferMode, reason string)
}

// Settings are what a Link moves rows with.
type Settings struct {
	Sender  Sender
	Objects Objects
	Shape   *wire.Shape
	// RowBytes are those of a row in messages.
	RowBytes int
	// Payload is the most bytes of a message.
	Payload func() int
	// Patience is how long a host waits for a minibatch that a gate has still to store; 0: two seconds.
	Patience time.Duration
	// Observer counts; nil: nobody does.
	Observer Observer
	// Span shows a stage of a minibatch in a trace until it is ended; nil: nobody looks.
	Span func(ctx context.Context, stage string, key *pb.Key, minibatch int) (end func())
}

// Link moves rows by every mode. Its methods may be called from several goroutines.
type Link struct {
	Settings
	rest rest
}

// New returns a link that has moved nothing yet.
func New(s Settings) *Link {
	s.Patience = cmp.Or(s.Patience, patience)
	if s.Observer == nil {
		s.Observer = nobody{}
	}
	if s.Span == nil {
		s.Span = func(context.Context, string, *pb.Key, int) func() { return func() {} }
	}
	return &Link{Settings: s}
}

// patience is longer than a gate takes for a minibatch, and shorter than attention waits for a layer.
const patience = 2 * time.Second

type nobody struct{}

func (nobody) Moved(pb.TransferMode, string, int, time.Duration) {}

func (nobody) FellBack(_, _ pb.TransferMode, _ string) {}

// By is the transfer of a mode. minibatch is the rows of an object, of the pipelined mode alone.
func (l *Link) By(mode pb.TransferMode, minibatch int) Transfer {
	switch mode {
	case plan.Pipelined:
		return pipelined{l, max(1, minibatch)}
	case plan.Indirect:
		return indirect{l}
	}
	return direct{l}
}

// Of is the transfer that a message shows, by its parcel.
func (l *Link) Of(p *pb.Parcel) Transfer {
	if p == nil {
		return direct{l}
	}
	return l.By(p.Mode, int(p.Minibatch))
}

// Forget removes the objects of a group that is summed.
func (l *Link) Forget(ctx context.Context, group string) error { return l.Objects.Remove(ctx, group) }
