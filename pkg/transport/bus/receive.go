package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// Receiver says what to receive, and how.
type Receiver struct {
	// Stream is created if it does not exist; who hears without one ignores it.
	Stream schemas.StreamSpec
	// Name is the durable consumer and the queue group. Replicas with the same
	// name share the messages, each takes as fast as it can.
	Name string
	// Subject filters the stream.
	Subject string
	// MaxInFlight bounds the messages taken and not yet handled; what a replica
	// holds, its siblings do not get. Default 16. Of what comes without a stream (core hops, and
	// Sole with unacked ones) the client keeps up to 256 MiB instead, drops what comes beyond that,
	// and logs the subject; whoever owns the step issues it again.
	MaxInFlight int
	// Concurrency is the number of handlers at a time, default 1: one after the
	// other, in order, on the goroutine that takes messages in.
	Concurrency int
	// Private marks a consumer that goes by itself when nobody receives from it any more.
	Private bool
	// Sole says that this replica alone receives from Subject, so that a stream has nothing
	// to share out: only acked hops have one then, with a consumer that is Private. What was
	// sent while the replica had no connection is lost with the other hops.
	Sole bool
	// AckWait is when an unacknowledged message goes to a sibling; acked hops only. Default 5 s.
	AckWait time.Duration
	// MaxAckPending bounds the unacknowledged messages of all replicas; acked hops only. Default 4096.
	MaxAckPending int
}

// Msg is a received message.
type Msg struct {
	Subject string
	Header  nats.Header
	Data    []byte
	// Delivered counts deliveries from 1; only acked hops repeat any.
	Delivered int
	// Arrived is when the message came into this process; see arrivals.
	Arrived time.Time
}

// Handler handles a message.
type Handler func(ctx context.Context, m *Msg) error

const (
	defaultInFlight      = 16
	defaultAckWait       = 5 * time.Second
	defaultMaxAckPending = 4096
	// privateFor is how long the server keeps a private consumer that nobody
	// pulls from: longer than any reconnect that a step survives.
	privateFor = 30 * time.Second
	// coreBytes bounds what a subscription without a stream buffers before it drops the newest.
	coreBytes = 256 << 20
)

func (r Receiver) withDefaults() Receiver {
	r.MaxInFlight = orDefault(r.MaxInFlight, defaultInFlight)
	r.Concurrency = orDefault(r.Concurrency, 1)
	r.AckWait = orDefault(r.AckWait, defaultAckWait)
	r.MaxAckPending = orDefault(r.MaxAckPending, defaultMaxAckPending)
	return r
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

func (r Receiver) consumer(acked bool) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: r.Name, FilterSubject: r.Subject,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: r.Stream.Memory,
	}
	if acked {
		cfg.AckPolicy, cfg.AckWait, cfg.MaxAckPending = jetstream.AckExplicitPolicy, r.AckWait, r.MaxAckPending
	}
	if r.Private || r.Sole {
		cfg.InactiveThreshold = privateFor
	}
	return cfg
}

// Receiving is a running receiver.
type Receiving struct {
	c       *Conn
	handler Handler
	acked   bool
	ctx     context.Context
	cancel  context.CancelFunc
	sub     *nats.Subscription
	puller  *puller // nil without a stream
	work    chan arrival
	workers sync.WaitGroup
	closed  chan struct{}
}

func (c *Conn) newReceiving(ctx context.Context, r Receiver, acked bool, h Handler) *Receiving {
	out := &Receiving{c: c, handler: h, acked: acked, closed: make(chan struct{})}
	out.ctx, out.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if r.Concurrency == 1 {
		return out
	}
	out.work = make(chan arrival)
	for range r.Concurrency {
		out.workers.Go(func() { //nolint:contextcheck // handlers get the receiving's own, which outlives the setup's
			for a := range out.work {
				out.run(a)
			}
		})
	}
	return out
}

func (c *Conn) consume(ctx context.Context, r Receiver, acked bool, h Handler) (*Receiving, error) {
	out := c.newReceiving(ctx, r, acked, h)
	out.puller = &puller{
		c: c, spec: r.Stream, config: r.consumer(acked), ref: refTo(r.Stream.Name, r.Name), want: r.MaxInFlight, handle: out.take, ctx: out.ctx,
		began: time.Now(),
	}
	if err := out.puller.start(ctx, out.finished); err != nil {
		out.cancel()
		out.endWorkers()
		return nil, err
	}
	out.sub = out.puller.sub
	return out, nil
}

func (c *Conn) subscribe(ctx context.Context, r Receiver, h Handler) (*Receiving, error) {
	out := c.newReceiving(ctx, r, false, h)
	var times arrivals
	group := r.Name
	if r.Sole { // not even with the connection that it had before, which a server may keep for a while
		group = ""
	}
	sub, err := c.nc.QueueSubscribe(r.Subject, group, func(m *nats.Msg) { //nolint:contextcheck // handlers get the receiving's own
		out.take(arrival{msg: m, at: times.next(time.Now())})
		times.handled(time.Now(), behind(m))
	})
	if err == nil {
		if err = c.Listening(ctx, "subscribing to "+r.Subject); err != nil {
			_ = sub.Unsubscribe() // fails when the connection is closed
		}
	}
	if err != nil {
		out.cancel()
		out.endWorkers()
		return nil, err
	}
	_ = sub.SetPendingLimits(-1, coreBytes) // fails on a closed subscription only
	sub.SetClosedHandler(func(string) { out.finished() })
	out.sub = sub
	return out, nil
}

// take runs on the subscription's goroutine.
func (r *Receiving) take(a arrival) {
	if r.work == nil {
		r.run(a)
		return
	}
	select {
	case r.work <- a:
	case <-r.ctx.Done():
	}
}

func (r *Receiving) run(a arrival) {
	m := a.msg
	msg := Msg{Subject: m.Subject, Header: m.Header, Data: m.Data, Delivered: 1, Arrived: a.at}
	if r.acked {
		if msg.Delivered = a.deliveries(); msg.Delivered > 1 {
			r.c.obs.Redelivered(m.Subject, msg.Delivered)
		}
	}
	ctx := r.ctx
	if r.c.prop != nil && len(m.Header) > 0 {
		ctx = r.c.prop.Extract(ctx, m.Header)
	}
	err := r.handle(ctx, &msg)
	outcome, after := classify(err, msg.Delivered)
	r.c.obs.Handled(m.Subject, len(m.Data), outcome)
	if err != nil && r.ctx.Err() == nil {
		r.c.log.Log(ctx, levelOf(outcome), "a message was not handled", "subject", m.Subject, "outcome", outcome, "error", err)
	}
	if r.acked {
		_ = r.c.answer(m.Reply, outcome, after, reason(err)) // a lost answer is a redelivery
	}
}

func (r *Receiving) handle(ctx context.Context, m *Msg) (err error) {
	defer r.c.catch(m.Subject, &err)
	return r.handler(ctx, m)
}

// Stop discards: no further handler starts, and the running ones' context
// ends. It does not wait; Closed does. It may be called from a handler, and twice.
func (r *Receiving) Stop() {
	r.cancel()
	if r.puller != nil {
		r.puller.forget()
	}
	_ = r.sub.Unsubscribe() // fails when it is already gone
}

// drainPoll is how often Drain looks whether there is a connection.
const drainPoll = 50 * time.Millisecond

// Drain finishes: nothing new is taken, what was taken is handled. When ctx
// ends before that, it stops and returns an error. Without a connection it
// stops at once: what is done now cannot be sent, and the server cannot say
// that nothing more comes.
func (r *Receiving) Drain(ctx context.Context) error {
	if r.puller != nil {
		r.puller.forget()
	}
	if err := r.sub.Drain(); err != nil {
		r.Stop()
	}
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		if !r.c.Connected() {
			r.Stop()
		}
		select {
		case <-r.closed:
			return nil
		case <-ctx.Done():
			r.Stop()
			return fmt.Errorf("draining %s: %w", r.sub.Subject, ctx.Err())
		case <-tick.C:
		}
	}
}

// Waiting is how many messages have come whose handlers have not begun.
func (r *Receiving) Waiting() int {
	n, _, err := r.sub.Pending()
	if err != nil { // it has ended
		return 0
	}
	return n
}

// Closed is closed when no handler runs any more and none will.
func (r *Receiving) Closed() <-chan struct{} { return r.closed }

func (r *Receiving) finished() {
	r.endWorkers()
	r.cancel()
	if r.puller != nil {
		r.puller.end()
	}
	close(r.closed)
}

func (r *Receiving) endWorkers() {
	if r.work != nil {
		close(r.work)
	}
	r.workers.Wait()
}
