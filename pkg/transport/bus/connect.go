package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
)

// Settings are what code sets.
type Settings struct {
	// Name is seen in the server's monitoring.
	Name string
	// InProcess connects to a server in this process, whatever Config says but Creds.
	InProcess nats.InProcessConnProvider
	// Propagator carries trace context in headers; nil carries none.
	Propagator Propagator
	// Observer counts; nil counts nothing.
	Observer Observer
	// Logger gets lost and regained connections; nil is slog's default.
	Logger *slog.Logger
	// MaxHeaders is how many header lines of a message are read: of one that has more, or more
	// than 64 KiB of them, there is only that it was cut (see Cut). 0: all are.
	MaxHeaders int
	// Patience is how long what is asked of JetStream may be in vain, while there is a
	// server, before that is an error; 0: it is asked again until it works.
	Patience time.Duration
	// Release is this program's, which streams bear that it makes.
	Release string
}

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	// reconnectWait is short: a stalled step waits for it.
	reconnectWait = 100 * time.Millisecond
	dialTimeout   = 3 * time.Second
	// A server that hangs is noticed after two or three of these; sooner where
	// another one can do its work.
	pingInterval  = 5 * time.Second
	pingOneOfMany = time.Second
	watchInterval = 250 * time.Millisecond
)

// Conn is a connection. Its methods may be called from several goroutines.
type Conn struct {
	nc         *nats.Conn
	js         jetstream.JetStream
	keysBehind string // what begins the subjects that keys are written on, where JetStream is another server's
	prop       Propagator
	obs        Observer
	log        *slog.Logger
	patience   time.Duration
	makers     time.Duration // how long streams are waited for that others make
	release    string
	limit      atomic.Int64              // the server's max payload
	lostAt     atomic.Pointer[time.Time] // nil while connected
	regainedAt atomic.Pointer[time.Time] // nil if it was never lost
	trials     trials
	unstored   unstored
	replicas   atomic.Int64 // what Ensure was last asked for
	alone      atomic.Bool  // JetStream has one server, whatever the connection's is of
	acks       *ackTable

	mu          sync.Mutex
	reconnected chan struct{} // closed and replaced at each reconnect
	pullers     map[*puller]struct{}
	deletions   deletions
	made        []string             // streams, by this connection
	lacking     map[string]time.Time // when streams were missed that others are to make
	silences    silences             // of memory streams
	stopping    atomic.Bool
	denied      atomic.Pointer[error] // the last missing permission, but for that to make streams
	barred      atomic.Bool           // this user may not make streams
	changesNone atomic.Bool           // nor change any
	denials     complaints
	refusals    complaints   // of keys
	link        atomic.Int32 // a Link
	pulse       pulse
	closed      chan struct{}
	watched     sync.WaitGroup // watch and followPulse
}

// Connect tries until a server answers or ctx ends, and says so once. Being
// refused (wrong credentials, no TLS) ends it at once.
func Connect(ctx context.Context, cfg Config, s Settings) (*Conn, error) {
	c := newConn(s)
	settings, opts, err := cfg.resolve()
	if s.InProcess != nil {
		settings, opts, err = cfg.inProcess(s.InProcess)
	}
	if err == nil && s.MaxHeaders > 0 {
		opts = append(opts, settings.sieved(s)...)
	}
	if err != nil {
		return nil, &SettingsError{err}
	}
	c.linked(Opening)
	if err := c.dial(ctx, settings.URL, append(opts, c.options(s.Name, settings.URL)...)); err != nil {
		c.linked(None)
		return nil, settings.explain(err)
	}
	if err := tooOld(c.nc.ConnectedServerVersion()); err != nil {
		c.nc.Close()
		return nil, err
	}
	c.linked(Connected)
	c.limit.Store(c.nc.MaxPayload())
	if c.js, err = settings.jetStream(c.nc); err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("preparing JetStream: %w", err)
	}
	if prefix := apiPrefix(c.js); prefix != jetstream.DefaultAPIPrefix {
		c.keysBehind = prefix
	}
	if c.acks, err = newAckTable(c); err != nil {
		c.nc.Close()
		return nil, err
	}
	// Not options of the dialling: these handlers use what was made since.
	c.nc.SetDisconnectErrHandler(func(_ *nats.Conn, err error) { c.lost(err) })
	c.nc.SetReconnectHandler(func(*nats.Conn) { c.regained() })
	c.watched.Go(c.watch)
	c.watched.Go(c.followPulse)
	return c, nil
}

// watch looks after what is overdue: acknowledgements and signs of life. One
// ticker for all of them, since a host has hundreds of receivers.
func (c *Conn) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.closed:
			return
		case now := <-tick.C:
			c.acks.expire(now)
			c.unstored.tell()
			c.leaveUseless()
			for _, p := range c.allPullers() {
				p.check(now)
			}
		}
	}
}

func (c *Conn) allPullers() []*puller {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.pullers))
}

func newConn(s Settings) *Conn {
	c := &Conn{
		prop: s.Propagator, obs: s.Observer, log: s.Logger, patience: s.Patience, release: s.Release,
		reconnected: make(chan struct{}), pullers: map[*puller]struct{}{}, silences: silences{},
		closed: make(chan struct{}), lacking: map[string]time.Time{},
	}
	c.unstored = unstored{c: c, of: map[string]*vain{}}
	if c.patience == 0 { // a service
		c.makers = makersWithin
	}
	if c.obs == nil {
		c.obs = NoObserver{}
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	return c
}

func (c *Conn) options(name, servers string) []nats.Option {
	ping := pingInterval
	if strings.Contains(servers, ",") {
		ping = pingOneOfMany
	}
	return []nats.Option{
		nats.Name(name),
		// A publish writes by itself: waking the client's flusher costs a hop
		// more than the write. See BenchmarkPipeline.
		nats.WriteBufferSize(1),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		// What is published while disconnected would arrive late and out of
		// place; every sender here has a way to try again.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(ping),
		nats.MaxPingsOutstanding(2),
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { c.complained(sub, err) }),
		nats.ClosedHandler(func(*nats.Conn) { c.linked(None); close(c.closed) }),
	}
}

func (c *Conn) dial(ctx context.Context, servers string, opts []nats.Option) (err error) {
	pauses := pause.Between(firstRetry, lastRetry)
	for first := true; ; first = false {
		if c.nc, err = nats.Connect(servers, opts...); err == nil {
			return nil
		}
		if refused(err) {
			return fmt.Errorf("%w: %s refused it: %w", ErrNoConnection, Redact(servers), err)
		}
		if first {
			c.log.Warn("no NATS server answers yet; still trying", "url", Redact(servers), "error", err)
		}
		if pauses.Wait(ctx) != nil {
			return fmt.Errorf("%w at %s: %w", ErrNoConnection, Redact(servers), err)
		}
	}
}

func (c *Conn) linked(now Link) {
	if before := Link(c.link.Swap(int32(now))); before != now {
		c.obs.Linked(before, now)
	}
}

func (c *Conn) lost(err error) {
	now := time.Now()
	c.lostAt.Store(&now)
	c.linked(Away)
	if c.stopping.Load() {
		return
	}
	c.log.Warn("lost the NATS connection; reconnecting", "error", err)
	c.acks.failAll(nats.ErrDisconnected)
}

func (c *Conn) regained() {
	c.log.Info("NATS connection is back", c.where()...)
	c.limit.Store(c.nc.MaxPayload())
	c.lostAt.Store(nil)
	c.pulse.hung.Store(false)
	now := time.Now()
	c.regainedAt.Store(&now)
	c.linked(Connected)
	c.trials.reset()
	c.unstored.forget()
	c.denials.forget()
	c.barred.Store(false)
	c.mu.Lock()
	close(c.reconnected)
	c.reconnected = make(chan struct{})
	c.mu.Unlock()
	for _, p := range c.allPullers() {
		p.rebuild()
	}
}

// where is the server, for the log. In this process it has no URL of ours: the client
// then names a default one, which it does not connect to.
func (c *Conn) where() []any {
	if c.nc.Opts.InProcessServer != nil {
		return []any{"server", "in this process"}
	}
	return []any{"url", Redact(c.nc.ConnectedUrl())}
}

// complained reports what the client could not attribute to a call: slow
// consumers and missing permissions.
func (c *Conn) complained(sub *nats.Subscription, err error) {
	if c.stopping.Load() {
		return
	}
	if errors.Is(err, nats.ErrPermissionViolation) {
		if c.isMaking(err) {
			return
		}
		c.denied.Store(&err)
		if !c.denials.add(err, time.Now()) {
			return
		}
	}
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	c.log.Warn("NATS reports a problem", "subject", subject, "error", WithCure(err))
}

// refuse drops a message of nobody who may send it, and answers nothing.
func (c *Conn) refuse(m *nats.Msg, why error) {
	c.obs.Refused(m.Subject)
	c.log.Warn("a message was refused", "subject", m.Subject, "error", why)
}

// Regained is when the connection came back last; the zero time if it was never lost.
func (c *Conn) Regained() time.Time {
	if at := c.regainedAt.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Reconnection returns a channel that is closed at the next reconnect.
func (c *Conn) Reconnection() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnected
}

// Close flushes, closes the connection and waits until its goroutines are
// gone. Receivings and Queues are to be stopped before.
func (c *Conn) Close() {
	if c.stopping.Swap(true) {
		<-c.closed
		return
	}
	if c.nc.IsConnected() {
		_ = c.nc.FlushTimeout(time.Second) // the best that can be done for what nobody waits for
	}
	c.nc.Close()
	<-c.closed
	c.watched.Wait()
	c.acks.close()
}

// Connected reports whether a server can be reached now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Denied is the last thing that this user was not let do; nil: nothing.
func (c *Conn) Denied() error {
	if denied := c.denied.Load(); denied != nil {
		return *denied
	}
	return nil
}

// Clustered reports whether the server is one of a cluster, as far as is known.
func (c *Conn) Clustered() bool { return c.nc.ConnectedClusterName() != "" }

// Closed is closed when the connection is, for good.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// NATS is the client connection, for what this package does not cover.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// JetStream is the JetStream client, for what this package does not cover.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// MaxPayload is the largest message in bytes that the server takes.
func (c *Conn) MaxPayload() int64 { return c.limit.Load() }
