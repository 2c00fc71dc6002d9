package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/schemas"
)

// QueueSettings name a durable work queue and a consumer of it.
type QueueSettings struct {
	Stream schemas.StreamSpec
	// Name is the durable consumer; replicas with the same name share the work.
	Name string
	// Subject filters the stream; empty takes all of it.
	Subject string
	// AckWait is when work without an Ack or InProgress goes to a sibling.
	AckWait time.Duration
	// Dead begins the subjects that keep what is given up, in a stream that exists;
	// the reason is their last token. "": nothing is kept.
	Dead string
	// Replica names in that who gave it up.
	Replica string
	// MaxAckPending bounds what all replicas together hold. Default 4096.
	MaxAckPending int
}

// Queue takes work from a stream, and only as much as is asked for: what one
// replica holds beyond its room, its siblings would lack.
type Queue struct {
	c      *Conn
	s      QueueSettings
	config jetstream.ConsumerConfig
	ref    consumerRef
	next   string
	inbox  string
	sub    *nats.Subscription

	letters letters
	pulling sync.Mutex // one Pull at a time

	mu      sync.Mutex
	arrived chan arrival // of the current request; nil without one

	ctx  context.Context // ends with Stop
	stop context.CancelFunc
}

// Queue creates what is missing of the stream and the consumer.
func (c *Conn) Queue(ctx context.Context, s QueueSettings) (*Queue, error) {
	if err := checkName(s.Name); err != nil {
		return nil, err
	}
	q := &Queue{c: c, s: s, ref: refTo(s.Stream.Name, s.Name), inbox: c.nc.NewInbox()}
	q.ctx, q.stop = context.WithCancel(context.WithoutCancel(ctx))
	q.config = jetstream.ConsumerConfig{
		Durable: s.Name, FilterSubject: s.Subject, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait:       orDefault(s.AckWait, defaultAckWait),
		MaxAckPending: orDefault(s.MaxAckPending, defaultMaxAckPending),
	}
	q.next = apiPrefix(c.js) + "CONSUMER.MSG.NEXT." + s.Stream.Name + "." + s.Name
	if err := c.Persist(ctx, q.ref.creating(), q.create); err != nil {
		return nil, err
	}
	sub, err := c.nc.Subscribe(q.inbox, q.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribing to the inbox of consumer %s: %w", s.Name, err)
	}
	q.sub = sub
	return q, nil
}

func (q *Queue) create(ctx context.Context) error {
	return q.c.createConsumer(ctx, q.s.Stream, q.config)
}

// receive passes messages on to the current request. What comes when nobody
// asks any more, or is more than was asked for, goes back at once: a sibling
// would wait for AckWait otherwise.
func (q *Queue) receive(m *nats.Msg) {
	a, err := q.ref.arrival(m)
	if err != nil {
		q.c.refuse(m, err)
		return
	}
	if hadItsMessages(a) {
		return // which collect knows, and the next request may have begun
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case q.arrived <- a: // never, when nil
	default:
		q.giveBack(a)
	}
}

func (q *Queue) giveBack(a arrival) {
	if a.status == "" {
		_ = q.c.answer(a.msg.Reply, Retried, 0, "") // lost: a redelivery after AckWait
	}
}

// Pull waits until there is work and returns up to limit of it, what is there
// and no more. It bears restarts of the server. Its error is ctx's or ErrStopped.
func (q *Queue) Pull(ctx context.Context, limit int) ([]*Delivery, error) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	t := q.c.trouble("pulling from " + q.s.Stream.Name)
	for pauses := pause.Between(firstWait, lastWait); ; {
		// What is there comes first; the second request waits for one message,
		// so that nothing can arrive that nobody expects any more.
		out, err := q.request(ctx, pullRequest{batch: limit, noWait: true, bytes: q.c.pullBytes()})
		if len(out) == 0 && err == nil {
			out, err = q.request(ctx, pullRequest{batch: 1, expires: pullExpires})
		}
		if len(out) > 0 {
			t.over()
			return out, nil
		}
		if q.c.nc.IsClosed() {
			err = errors.Join(err, ErrStopped)
		}
		if ctx.Err() != nil || errors.Is(err, ErrStopped) {
			return nil, fmt.Errorf("pulling from %s: %w", q.s.Stream.Name, errors.Join(ctx.Err(), err))
		}
		if err == nil {
			t.over()
			pauses.Reset()
			continue
		}
		t.is(err)
		q.recover(ctx, pauses.Next())
	}
}

// PullNow returns up to limit of what the server has told the consumer of, and does not wait
// for any. The server stores a message a moment before it tells the consumer.
func (q *Queue) PullNow(ctx context.Context, limit int) ([]*Delivery, error) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	return q.request(ctx, pullRequest{batch: limit, noWait: true, bytes: q.c.pullBytes()})
}

// recover waits a little and creates stream and consumer if they are gone.
func (q *Queue) recover(ctx context.Context, wait time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)() //nolint:contextcheck // Stop ends it, too
	if q.c.pause(ctx, wait) == nil {
		_ = q.c.persistAlways(ctx, q.ref.creating(), q.create) // fails when nobody needs it any more
	}
}

// request makes one pull request and collects its messages. No error and no
// message says that there was none in time.
func (q *Queue) request(ctx context.Context, r pullRequest) ([]*Delivery, error) {
	arrived, err := q.begin(r.batch)
	if err != nil {
		return nil, err
	}
	defer q.end()
	reconnected := q.c.Reconnection()
	if err := q.c.pull(q.next, q.inbox, r); err != nil {
		return nil, fmt.Errorf("asking for work: %w", err)
	}
	return q.collect(ctx, arrived, reconnected, r.batch)
}

func (q *Queue) begin(batch int) (<-chan arrival, error) {
	if q.ctx.Err() != nil {
		return nil, ErrStopped
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// Room for every message, and for statuses before anybody reads them.
	q.arrived = make(chan arrival, batch+4)
	return q.arrived, nil
}

// end gives back what arrived and was not collected.
func (q *Queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.arrived)
	for a := range q.arrived {
		q.giveBack(a)
	}
	q.arrived = nil
}

func (q *Queue) collect(ctx context.Context, arrived <-chan arrival, reconnected <-chan struct{}, batch int) (out []*Delivery, err error) {
	silence := time.NewTimer(silentAfter)
	defer silence.Stop()
	for len(out) < batch {
		select {
		case a := <-arrived:
			if a.status != "" {
				return out, statusError(a)
			}
			o, err := a.origin()
			if err != nil {
				q.c.refuse(a.msg, err)
				continue
			}
			out = append(out, q.delivery(a.msg, o))
		case <-silence.C:
			return out, jetstream.ErrNoHeartbeat
		case <-reconnected:
			return out, nats.ErrDisconnected
		case <-q.ctx.Done():
			return out, ErrStopped
		case <-q.c.closed:
			return out, fmt.Errorf("%w: %w", ErrStopped, nats.ErrConnectionClosed)
		case <-ctx.Done():
			return out, nil
		}
	}
	return out, nil
}

func statusError(a arrival) error {
	if a.status == "404" || a.status == "408" || hadItsBytes(a) {
		return nil // none, or no more
	}
	return fmt.Errorf("server status %s %s", a.status, a.msg.Header.Get("Description"))
}

// GiveBack gives back what another replica took and can settle no more, to whoever
// pulls next. subject is the delivery's AckSubject; one that is not of this queue is
// refused.
func (q *Queue) GiveBack(subject string) error {
	if _, err := q.Place(subject); err != nil {
		return fmt.Errorf("giving work of another replica back: %w", err)
	}
	return q.c.answer(subject, Retried, 0, "")
}

// Place is where in the stream a delivery's message is, by the delivery's AckSubject.
func (q *Queue) Place(subject string) (uint64, error) {
	a, err := q.ref.arrival(&nats.Msg{Reply: subject})
	if err != nil {
		return 0, err
	}
	o, err := a.origin()
	return o.sequence, err
}

// Stop ends the current Pull and all later ones. Deliveries remain valid.
func (q *Queue) Stop() {
	q.stop()
	_ = q.sub.Unsubscribe() // fails when it is already gone
}
