// Package asking asks over plain NATS, many requests at a time, and has every
// stream judged by what the same request brought when nothing went wrong. It
// publishes, subscribes and reads JSON by itself, as docs/api.md says.
package asking

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/chaos/check"
	"github.com/switchyard/switchyard/loadtest/chaos/workload"
)

// Settings are what a load is made of.
type Settings struct {
	// URL of the servers; Prefix and Model are those of the services.
	URL, Prefix, Model string
	// Login is what the servers want to see, and Inbox the beginning of the subjects at
	// which this user may hear.
	Login []nats.Option
	Inbox string
	// Run is part of all request ids, so that no two runs share any.
	Run string
	// Workers send one request after the other, each.
	Workers  int
	Workload *workload.Workload
	// Hang is when an answer counts as lost.
	Hang time.Duration
	// Ends are the errors by which any request may end, as during an upgrade; where Plain
	// is set, readers do nothing beside reading.
	Ends  []string
	Plain bool
	// Mixed says that services of two releases answer, of which the later may tell more in a chunk.
	Mixed bool
	// Reweighed says that services with other weights come: they refuse to replay whole
	// answers of those before.
	Reweighed bool
}

// Load asks, and keeps what came of it.
type Load struct {
	settings Settings
	nc       *nats.Conn
	began    time.Time
	want     [][]string // contents by variant
	breaks   atomic.Int64

	mu      sync.Mutex
	readers map[string]*reader // by inbox
	result  Result
	kept    []*reader // of requests that are to be read again
}

// Result is what came of all requests.
type Result struct {
	Ends map[string]int `json:"ends"`
	// Replays are those that a reader asked for because something was missing;
	// Refused are those that nobody could answer yet.
	Replays int `json:"replays"`
	Refused int `json:"refused_replays"`
	// Again are the requests that were read again at the end.
	Again int `json:"read_again"`
	// Repeats are chunks that came again, Overtaken those that came after a later one.
	Repeats    int               `json:"repeats"`
	Overtaken  int               `json:"overtaken"`
	Tokens     int               `json:"tokens"`
	Spans      []Span            `json:"-"`
	Stalls     []check.Stall     `json:"-"`
	Violations []check.Violation `json:"violations"`
}

// Span is a request's time.
type Span struct {
	Worker   int
	Request  string
	From, To time.Duration
	// Stall is its longest pause between two new indices.
	Stall time.Duration
}

// reconnectWait is short: what a reader misses meanwhile counts as a stall.
const reconnectWait = 50 * time.Millisecond

// Dial connects, and begins to read.
func Dial(s Settings) (*Load, error) {
	l := &Load{settings: s, began: time.Now(), readers: map[string]*reader{}, result: Result{Ends: map[string]int{}}}
	var err error
	options := append([]nats.Option{nats.Name("chaos load"), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(-1), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.CustomInboxPrefix(s.Inbox),
		nats.ReconnectHandler(func(*nats.Conn) { l.breaks.Add(1) })}, s.Login...)
	if l.nc, err = nats.Connect(s.URL, options...); err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.URL, err)
	}
	sub, err := l.nc.Subscribe(l.inbox(">"), l.take)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		l.nc.Close()
		return nil, fmt.Errorf("subscribing to answers: %w", err)
	}
	return l, nil
}

// Close ends the connection.
func (l *Load) Close() { l.nc.Close() }

// Now is the time since Dial, by which everything is told.
func (l *Load) Now() time.Duration { return time.Since(l.began) }

// Result is what came of all requests so far.
func (l *Load) Result() Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.result
	r.Ends = maps.Clone(r.Ends) // requests go on ending
	return r
}

func (l *Load) inbox(name string) string { return l.settings.Inbox + "." + l.settings.Run + "." + name }

func (l *Load) subject(kind string) string {
	return l.settings.Prefix + "." + kind + "." + l.settings.Model
}

// take hands a chunk to who waits for it.
func (l *Load) take(m *nats.Msg) {
	at := l.Now()
	inbox, replayed := strings.CutSuffix(m.Subject, replays)
	l.mu.Lock()
	r := l.readers[inbox]
	l.mu.Unlock()
	if r != nil {
		r.take(at, m.Data, replayed && !l.final(m, r.again))
	}
}

// final reports whether what a replay brought is the end of its request, by an error that any
// may end by, and not a refusal of the replay. One of an ended request is its end as well,
// if nobody can read its log any more.
func (l *Load) final(m *nats.Msg, again bool) bool {
	c, err := check.Decode(m.Data)
	if err != nil || !slices.Contains(l.settings.Ends, c.Ended()) {
		return false
	}
	return m.Header.Get("Switchyard-Refused") == "" || again && l.settings.Reweighed && strings.Contains(c.Error.Message, "replicas of another kind")
}

// acceptedWithin is how long the first prompts may go without an acknowledgement, while
// nothing goes wrong yet.
const acceptedWithin = 10 * time.Second

// Reference makes the answers that all others must equal, one after the other.
func (l *Load) Reference(ctx context.Context) error {
	for i, p := range l.settings.Workload.Variants() {
		p.RequestID = fmt.Sprintf("%s-alone-%d", l.settings.Run, i)
		contents, err := l.learn(ctx, p)
		if err != nil {
			return fmt.Errorf("request %d alone, on %s at %s: %w", i, l.subject("prompt"), l.nc.ConnectedUrlRedacted(), err)
		}
		l.want = append(l.want, contents)
	}
	return nil
}

func (l *Load) learn(ctx context.Context, p workload.Prompt) ([]string, error) {
	r := l.open(check.Expect{Request: p.RequestID, Mixed: l.settings.Mixed}, "a")
	r.learns = true
	if err := l.publish(ctx, p, r, acceptedWithin); err != nil {
		return nil, fmt.Errorf("it was not accepted within %v: %w; are services of this model and prefix there, and has this user the right to publish there and to hear at %s?",
			acceptedWithin, err, l.inbox(">"))
	}
	l.follow(ctx, r, nil)
	l.close(r)
	return r.reference()
}

// Run sends requests until ctx ends, and waits for the last ones' ends.
func (l *Load) Run(ctx context.Context) {
	var all sync.WaitGroup
	for w := range l.settings.Workers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.request(context.WithoutCancel(ctx), w, n)
			}
		})
	}
	all.Wait()
}

// keptOneOf is which share of the requests is read again: one of so many.
const keptOneOf = 5

// Again reads some of the answers again, when all have ended: they must be there,
// with the same bytes.
func (l *Load) Again(ctx context.Context) {
	l.mu.Lock()
	kept := l.kept
	l.result.Again = len(kept)
	l.mu.Unlock()
	for _, before := range kept {
		r := l.read(before.request, "again", before.stream.Again(l.Now()), true)
		l.replay(r, 0)
		l.follow(ctx, r, nil)
		l.close(r)
	}
}
