// Package lease gives a duty to one replica at a time.
//
//	                 revision moves: a holder renews
//	                        ┌────┐                 unchanged for TTL, released, absent, our
//	        get             ▼    │                 own, or its owner has no connection
//	start ───────▶ waiting ──────┴───────────────▶ compare and set ──▶ held
//	                  ▲                                  │ lost            │ renew
//	                  └──────────────────────────────────┘                 │ each TTL/3
//	                  ▲                                                    │
//	                  └──────── another's revision, no renewal in time ────┘
//
// Time is each replica's own: a candidate waits until the key has not changed
// for TTL on its clock, and a holder gives up earlier than that on its own. An
// owner that has no connection is not waited for (members.LivenessWatcher). A holder
// that was suspended, or is about to reconnect, may still believe that it holds: what it
// writes must carry the epoch, which grows with every owner.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TTL is how long a lease without renewals lasts, unless Options say otherwise.
const TTL = 1500 * time.Millisecond

// ErrLost is the cause of a holder's ended context when somebody else may hold
// the lease now.
var ErrLost = errors.New("lease lost")

var errBehind = errors.New("the server that was asked has not seen the newest write of the lease")

// Watcher looks for owners, as a members.LivenessWatcher does.
type Watcher interface {
	// Watch closes gone when an owner has no connection any more.
	Watch(owner string) (gone <-chan struct{}, stop func())
}

// Options are what a caller may set.
type Options struct {
	// TTL is the same for all who want the lease. 0 means TTL.
	TTL time.Duration
	// Watcher looks for an owner that listens: a lease is free at once when its owner
	// is gone. nil: nobody looks for owners.
	Watcher Watcher
	// Listens reports whether this candidate may be looked for when it is the owner. nil:
	// it may not.
	Listens func() bool
}

func (o *Options) listens() bool { return o.Listens != nil && o.Listens() }

// Hold waits for the lease and calls fn while it holds it, again and again
// when the lease is lost, until fn returns by itself or ctx ends. fn's context
// ends with the lease; fn must return then. What fn returns while it holds is
// Hold's result. The lease is released before Hold returns, so that a
// candidate takes over at once. owner is unique to this run of this process.
func Hold(ctx context.Context, kv jetstream.KeyValue, key, owner string, o Options, fn func(context.Context, *Held) error) error {
	b, err := bus.AsBucket(kv)
	if err != nil {
		return err
	}
	if o.TTL <= 0 {
		o.TTL = TTL
	}
	c := &candidate{Options: o, kv: b, key: key, owner: owner, moved: make(chan struct{}, 1)}
	stop, err := b.Conn().FollowKeys(b.Bucket(), key, func(string, []byte, bool) { pause.Wake(c.moved) })
	if err != nil {
		return err
	}
	defer stop()
	for {
		held, err := c.acquire(ctx)
		if err != nil {
			return err
		}
		if again, err := held.run(ctx, fn); !again {
			return err
		}
	}
}

// candidate waits for a lease.
type candidate struct {
	Options
	kv    *bus.Bucket
	key   string
	owner string
	moved chan struct{} // the key was written

	seen  uint64 // revision
	since time.Time
	sought
}

// acquire returns when the lease is held, or an error when ctx ends.
func (c *candidate) acquire(ctx context.Context) (*Held, error) {
	defer c.seekNobody()
	pauses := pause.Between(min(firstPause, c.TTL/3), c.TTL/3)
	for early := 0; ; early-- {
		before, back := c.seen, c.kv.Conn().Reconnection()
		held, wait, err := c.attempt(ctx)
		switch {
		case held != nil:
			return held, nil
		case err != nil:
			c.seekNobody() // who was gone may be back by the next attempt
			wait = pauses.Next()
		default:
			pauses.Reset()
		}
		if early > 0 && c.seen == before {
			wait = min(wait, c.TTL/100)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for lease %s: %w", c.key, ctx.Err())
		case <-c.kv.Conn().Closed():
			return nil, fmt.Errorf("waiting for lease %s: %w", c.key, bus.ErrNoConnection)
		case <-c.moved:
			early = maxEarly
		case <-back: // what could not be read may be free by now
		case <-c.gone:
		case <-time.After(wait):
		}
	}
}

// maxEarly is how often a candidate looks for a write that it heard of: it may
// hear of it before it is stored.
const maxEarly = 5

// firstPause is how long a candidate waits after an attempt that met an error: a server
// that did not answer may do so soon, or somebody else was quicker.
const firstPause = 15 * time.Millisecond

// attempt tries once, and says how long the lease is another's if nobody renews it.
func (c *candidate) attempt(ctx context.Context) (held *Held, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.TTL)
	defer cancel()
	before := time.Now() // the lease is counted from before the write
	old, revision, err := c.read(ctx)
	if err != nil {
		return nil, 0, err
	}
	if revision != c.seen {
		c.seen, c.since = revision, time.Now()
	}
	c.seek(old)
	if silent := time.Since(c.since); old.GetOwner() != "" && old.GetOwner() != c.owner && !c.isGone() && silent < c.TTL {
		return nil, c.TTL - silent, nil
	}
	epoch, err := c.after(ctx, revision)
	if err != nil {
		return nil, 0, err
	}
	mine := &pb.Lease{Owner: c.owner, Epoch: epoch, Position: old.GetPosition(), Incarnation: old.GetIncarnation(), Listens: c.listens()}
	revision, err = c.write(ctx, mine, revision)
	if err != nil {
		return nil, 0, err
	}
	return &Held{candidate: c, lease: mine, revision: revision, renewed: before, inherited: old.GetEpoch() > 0}, 0, nil
}

// after returns the epoch behind those of all earlier owners, none of which was
// larger than its key's revision. A key that was deleted goes on from the
// bucket's.
func (c *candidate) after(ctx context.Context, revision uint64) (uint64, error) {
	if revision > 0 {
		return revision + 1, nil
	}
	last, err := c.kv.LastRevision(ctx)
	return last + 1, err
}

// read returns the key's value and revision; 0 for one that does not exist.
func (c *candidate) read(ctx context.Context) (*pb.Lease, uint64, error) {
	entry, err := c.kv.Get(ctx, c.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return &pb.Lease{}, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading lease %s: %w", c.key, err)
	}
	return decode(entry.Value(), entry.Revision()), entry.Revision(), nil
}

// decode returns a lease of nobody for what no owner can have written.
func decode(value []byte, revision uint64) *pb.Lease {
	l := &pb.Lease{}
	if proto.Unmarshal(value, l) != nil || l.Epoch > revision {
		return &pb.Lease{}
	}
	return l
}

func (c *candidate) write(ctx context.Context, l *pb.Lease, revision uint64) (uint64, error) {
	data, err := proto.Marshal(l)
	if err != nil {
		return 0, fmt.Errorf("encoding lease %s: %w", c.key, err)
	}
	if revision == 0 {
		return c.kv.Create(ctx, c.key, data)
	}
	return c.kv.Update(ctx, c.key, data, revision)
}

// Held is a lease while it is held.
type Held struct {
	*candidate
	revision uint64
	renewed  time.Time // from before the write that was acknowledged last
	// inherited says that somebody held it before.
	inherited bool

	mu     sync.Mutex
	lease  *pb.Lease
	cancel context.CancelCauseFunc
}

// Epoch grows with every owner of the lease.
func (h *Held) Epoch() uint64 { return h.lease.Epoch }

// Holds asks whether the lease is this owner's still.
func (h *Held) Holds(ctx context.Context) (bool, error) {
	l, _, err := h.read(ctx)
	return l.GetOwner() == h.owner && l.GetEpoch() == h.Epoch(), err
}

// Inherited says that the lease had an owner before.
func (h *Held) Inherited() bool { return h.inherited }

// Position returns where the last owner stopped, or what was set since.
func (h *Held) Position() bus.Place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bus.Place{Incarnation: h.lease.Incarnation, Sequence: h.lease.Position}
}

// SetPosition says where the next owner shall go on; the next renewal or the
// release carries it, so the next owner may see an older one.
func (h *Held) SetPosition(p bus.Place) {
	h.mu.Lock()
	h.lease.Incarnation, h.lease.Position = p.Incarnation, p.Sequence
	h.mu.Unlock()
}

// sought is the owner that a candidate looks for.
type sought struct {
	who  string          // "": nobody
	gone <-chan struct{} // closed when it has no connection any more; nil: nobody is looked for
	stop func()
}

// seek looks for a lease's owner from now on, if that can be found.
func (c *candidate) seek(l *pb.Lease) {
	who := ""
	if c.Watcher != nil && l.GetListens() && l.GetOwner() != c.owner {
		who = l.GetOwner()
	}
	if who == c.who {
		return
	}
	c.seekNobody()
	if who != "" {
		c.who = who
		c.gone, c.stop = c.Watcher.Watch(who)
	}
}

func (c *candidate) seekNobody() {
	if c.stop != nil {
		c.stop()
	}
	c.sought = sought{}
}

// isGone reports whether the owner that was sought has no connection.
func (c *candidate) isGone() bool {
	select {
	case <-c.gone: // never, when nil
		return true
	default:
		return false
	}
}

// run calls fn and renews the lease meanwhile. again says that Hold shall wait
// for the lease anew.
func (h *Held) run(ctx context.Context, fn func(context.Context, *Held) error) (again bool, err error) {
	tenure, cancel := context.WithCancelCause(ctx)
	h.cancel = cancel
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		h.renewUntilDone(tenure)
	}()
	err = fn(tenure, h)
	lost := errors.Is(context.Cause(tenure), ErrLost)
	cancel(nil)
	<-renewing
	if !lost {
		h.giveBack(ctx)
	}
	return lost && ctx.Err() == nil, err
}

// giveUpAfter returns when a holder without renewals stops: earlier than a
// candidate begins, so that its work has ended by then.
func (h *Held) giveUpAfter() time.Duration { return h.TTL * 4 / 5 }

func (h *Held) renewUntilDone(ctx context.Context) {
	wait := h.TTL / 3
	for {
		if pause.For(ctx, wait) != nil {
			return
		}
		err := h.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = h.TTL / 3
		case errors.Is(err, ErrLost) || time.Since(h.renewed) >= h.giveUpAfter():
			h.cancel(ErrLost)
			return
		default:
			wait = h.TTL / 15 // no answer: there is still time
		}
	}
}

// renew writes the lease again. An attempt must not outlast the lease.
func (h *Held) renew(ctx context.Context) error {
	within := min(h.TTL/3, h.giveUpAfter()-time.Since(h.renewed))
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	before := time.Now()
	revision, err := h.write(ctx, h.current(), h.revision)
	if bus.IsWrongSequence(err) {
		revision, err = h.recognise(ctx)
	}
	if err == nil {
		h.revision, h.renewed = revision, before
	}
	return err
}

// recognise looks whether the newer revision is our own: its acknowledgement
// was lost then. A server that has not seen a newer one, because it is behind the
// others or cut off from them, knows nothing: the lease is not renewed by that.
func (h *Held) recognise(ctx context.Context) (uint64, error) {
	now, revision, err := h.read(ctx)
	if err != nil {
		return 0, err
	}
	if revision <= h.revision && revision != 0 {
		return 0, errBehind
	}
	if now.GetOwner() != h.owner || now.GetEpoch() != h.Epoch() {
		return 0, ErrLost
	}
	return revision, nil
}

func (h *Held) current() *pb.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := proto.CloneOf(h.lease)
	l.Listens = h.listens()
	return l
}

// giveBack writes the lease without an owner. When that fails, candidates wait
// for TTL, so it is not tried again.
func (h *Held) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.TTL)
	defer cancel()
	free := h.current()
	free.Owner = ""
	_, err := h.write(ctx, free, h.revision)
	if !bus.IsWrongSequence(err) {
		return
	}
	if revision, err := h.recognise(ctx); err == nil {
		_, _ = h.write(ctx, free, revision) // as above
	}
}
