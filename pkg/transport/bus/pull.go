package bus

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

const (
	// pullExpires is short: a server goes on giving a replica that hangs what
	// that has asked for. The end of a request is a sign of life, too, so that
	// no heartbeats are needed and an idle receiver costs one message a second
	// each way.
	pullExpires = time.Second
	// silentAfter is when a receiver believes that nobody serves its requests.
	// Deleted consumers and restarted servers are noticed at once, so this is
	// for what is left: the server that had the consumer is gone, in a cluster.
	silentAfter = 1750 * time.Millisecond
	firstWait   = 20 * time.Millisecond
	lastWait    = 500 * time.Millisecond
	// createWithin bounds an attempt at creating something. The first ones are
	// shorter: a server that just started drops requests until its JetStream is up.
	createWithin = 5 * time.Second
	firstAttempt = 200 * time.Millisecond
	// electionAttempt is the longest one while a cluster may be electing leaders.
	electionAttempt = 800 * time.Millisecond
)

// puller keeps a bounded number of messages of one consumer asked for, and
// creates stream and consumer anew when they are gone. It speaks JetStream's
// pull protocol itself: the client library's Consume spends six goroutines on
// a consumer and refills over one of them, which a tensor hop feels.
//
//	asked ≤ want     messages requested and not handled yet
//	message          asked-1; at want/2 another request tops it up
//	408              a request expired: what it had left is asked again
//	409, silence     consumer or stream gone: create both, ask again
//	reconnect        the same: a pull for a consumer that a restarted server
//	                 has not is not answered at all
type puller struct {
	c      *Conn
	spec   schemas.StreamSpec
	config jetstream.ConsumerConfig
	ref    consumerRef
	next   string // subject of pull requests
	inbox  string
	want   int
	handle func(arrival)
	times  arrivals

	ctx        context.Context // ends when the puller stops
	sub        *nats.Subscription
	began      time.Time
	heard      atomic.Int64 // when the last sign of life came, in nanoseconds since began
	busy       atomic.Bool  // in handle
	rebuilding atomic.Bool

	mu    sync.Mutex
	asked int
	ended bool
	tasks sync.WaitGroup // a rebuild under way
}

// start creates what is missing and asks for the first messages. closed is
// called when no further message will be handled.
func (p *puller) start(ctx context.Context, closed func()) error {
	if err := p.c.Persist(ctx, p.ref.creating(), p.create); err != nil {
		return err
	}
	p.next = apiPrefix(p.c.js) + "CONSUMER.MSG.NEXT." + p.spec.Name + "." + p.config.Durable
	p.inbox = p.c.nc.NewInbox()
	sub, err := p.c.nc.Subscribe(p.inbox, p.receive)
	if err != nil {
		return fmt.Errorf("subscribing to the inbox of consumer %s: %w", p.config.Durable, err)
	}
	_ = sub.SetPendingLimits(-1, -1) // bounded by want; fails on a closed subscription only
	sub.SetClosedHandler(func(string) { closed() })
	p.sub = sub
	p.c.mu.Lock()
	p.c.pullers[p] = struct{}{}
	p.c.mu.Unlock()
	p.reset()
	return nil
}

// forget ends watching and asking after a reconnect; the subscription is the
// caller's to end.
func (p *puller) forget() {
	p.c.mu.Lock()
	delete(p.c.pullers, p)
	p.c.mu.Unlock()
}

// end forgets and waits for a rebuild that is under way; p.ctx has ended.
func (p *puller) end() {
	p.forget()
	p.mu.Lock()
	p.ended = true // no rebuild begins from now on
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *puller) create(ctx context.Context) error { return p.c.createConsumer(ctx, p.spec, p.config) }

// createConsumer creates what is missing of a stream and a consumer of it.
func (c *Conn) createConsumer(ctx context.Context, spec schemas.StreamSpec, config jetstream.ConsumerConfig) error {
	err := c.ensure(ctx, spec)
	if err == nil {
		_, err = c.js.CreateOrUpdateConsumer(ctx, spec.Name, config)
	}
	return err
}

func (p *puller) receive(m *nats.Msg) {
	now := time.Now()
	arrived := p.times.next(now)
	defer func() { p.times.handled(time.Now(), behind(m)) }()
	a, err := p.ref.arrival(m)
	if err != nil {
		p.c.refuse(m, err)
		return
	}
	a.at = arrived
	p.hears(now)
	if a.status != "" {
		p.onStatus(a)
		return
	}
	p.busy.Store(true)
	p.handle(a)
	p.busy.Store(false)
	p.credit(1)
}

func (p *puller) onStatus(a arrival) {
	switch a.status {
	case "404", "408":
		p.credit(pendingOf(a.msg))
	default: // 409: deleted, moved or shut down
		p.rebuild()
	}
}

func pendingOf(m *nats.Msg) int {
	left, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")) // absent: none
	return left
}

// credit notes that n messages less are asked for, and asks again.
func (p *puller) credit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = max(p.asked-n, 0)
	if p.asked <= p.want/2 {
		p.ask()
	}
}

// reset starts counting anew: the server has forgotten all requests.
func (p *puller) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hears(time.Now())
	p.asked = 0
	p.ask()
}

// ask requests what is missing; p.mu is held. A request that cannot be sent is
// made up for by reset after the reconnect.
func (p *puller) ask() {
	if p.ctx.Err() != nil {
		return
	}
	if err := p.c.pull(p.next, p.inbox, pullRequest{batch: p.want - p.asked, expires: pullExpires}); err == nil {
		p.asked = p.want
	}
}

func (p *puller) hears(now time.Time) { p.heard.Store(int64(now.Sub(p.began))) }

func (p *puller) quiet(now time.Time) time.Duration {
	return now.Sub(p.began) - time.Duration(p.heard.Load())
}

// check is called by the connection's watch. A busy handler explains silence.
func (p *puller) check(now time.Time) {
	quiet := p.quiet(now)
	if quiet < silentAfter || p.busy.Load() || !p.c.nc.IsConnected() {
		return
	}
	if pending, _, err := p.sub.Pending(); err == nil && pending == 0 {
		p.c.noteSilence(p.spec, now.Add(-quiet))
		p.rebuild()
	}
}

// rebuild creates stream and consumer again, until that works, and goes on.
func (p *puller) rebuild() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.ctx.Err() != nil || !p.rebuilding.CompareAndSwap(false, true) {
		return
	}
	p.tasks.Add(1)
	go func() {
		defer p.tasks.Done()
		defer p.rebuilding.Store(false)
		if p.c.persistAlways(p.ctx, p.ref.creating(), p.create) == nil { // else it stops
			p.c.obs.Rebuilt(p.spec.Name, p.config.Durable)
			p.reset()
		}
	}()
}

type pullRequest struct {
	batch   int
	expires time.Duration
	noWait  bool
	bytes   int64 // 0: no bound
}

func (c *Conn) pull(next, inbox string, r pullRequest) error {
	body := make([]byte, 0, 96)
	body = append(body, `{"batch":`...)
	body = strconv.AppendInt(body, int64(r.batch), 10)
	if r.bytes > 0 {
		body = append(body, `,"max_bytes":`...)
		body = strconv.AppendInt(body, r.bytes, 10)
	}
	if r.noWait {
		body = append(body, `,"no_wait":true`...)
	} else {
		body = append(body, `,"expires":`...)
		body = strconv.AppendInt(body, int64(r.expires), 10)
	}
	return c.post(next, inbox, append(body, '}'))
}
