package members

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/pause"
)

const (
	// lookEvery is how often one looks for a replica.
	lookEvery = 100 * time.Millisecond
	// hereAnswerWithin is how long a server may take to say that nobody listens.
	hereAnswerWithin = 100 * time.Millisecond
	// strikes is how often in a row a replica has to be absent: a client that loses
	// its connection is back sooner.
	strikes = 4
	// settle is how long nobody is looked for after the own connection was away: the
	// others' were, too, as when a server starts again.
	settle = time.Second
)

// LivenessWatcher tells which replicas have no connection to NATS any more. Each
// listens to a subject of its own, and a server says at once that a message has no
// listener. So a process that was killed is missed in a third of a second,
// where its silence means anything only after more than one. One that hangs is not
// missed: its connection is open.
//
// What follows may be wrong, as of a replica that is about to reconnect: it may lead to work
// that is done twice, and to nothing else.
type LivenessWatcher struct {
	conn    conn
	subject func(id string) string
	pauses  pauses

	mu      sync.Mutex
	watched map[string]*watched
}

// pauses are constants but in tests.
type pauses struct{ every, answer, settle time.Duration }

// watched is a replica that somebody in this process looks for.
type watched struct {
	users int
	gone  chan struct{}
	stop  context.CancelFunc
}

// NewLivenessWatcher returns one that looks for nobody yet. subject is what a replica listens to.
func NewLivenessWatcher(c conn, subject func(id string) string) *LivenessWatcher {
	return &LivenessWatcher{
		conn: c, subject: subject, watched: map[string]*watched{},
		pauses: pauses{lookEvery, hereAnswerWithin, settle},
	}
}

// Watch looks for a replica that listens, or did, until stop is called. gone is closed
// when it has no connection any more; who then still wants it watches anew.
func (w *LivenessWatcher) Watch(id string) (gone <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.watched[id]
	if of == nil {
		ctx, cancel := context.WithCancel(context.Background())
		of = &watched{gone: make(chan struct{}), stop: cancel}
		w.watched[id] = of
		go w.look(ctx, id, of)
	}
	of.users++
	return of.gone, sync.OnceFunc(func() { w.leave(id, of) })
}

// leave ends looking for a replica that nobody watches any more.
func (w *LivenessWatcher) leave(id string, of *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of.users--; of.users == 0 {
		of.stop()
		w.forget(id, of)
	}
}

// forget lets the next Watch begin anew; w.mu is held.
func (w *LivenessWatcher) forget(id string, of *watched) {
	if w.watched[id] == of {
		delete(w.watched, id)
	}
}

// look looks for a replica until it is gone, ctx ends, or this one may not ask.
func (w *LivenessWatcher) look(ctx context.Context, id string, of *watched) {
	for absences := 0; ; {
		gap := w.conn.Gap()
		absent, err := w.conn.Absent(ctx, w.subject(id), w.pauses.answer)
		if err != nil {
			return
		}
		wait := w.pauses.every
		switch {
		case gap():
			absences, wait = 0, w.pauses.settle
		case absent:
			absences++
		default:
			absences = 0
		}
		if absences == strikes {
			w.mu.Lock()
			w.forget(id, of)
			w.mu.Unlock()
			close(of.gone)
			return
		}
		if pause.For(ctx, wait) != nil {
			return
		}
	}
}

// Listening is a replica that others may look for.
type Listening struct {
	heard atomic.Bool
	sub   *nats.Subscription
}

// conn is bus.Conn's part that this package needs.
type conn interface {
	Subscribe(subject, group string, handle nats.MsgHandler) (*nats.Subscription, error)
	SendBytes(ctx context.Context, subject string, data []byte, header nats.Header) error
	Absent(ctx context.Context, subject string, within time.Duration) (bool, error)
	Gap() func() bool
}

// ListenHere listens to a replica's subject until Stop. What comes there is of no
// interest.
func ListenHere(ctx context.Context, c conn, subject string) (*Listening, error) {
	l := &Listening{}
	sub, err := c.Subscribe(subject, "", func(*nats.Msg) { l.heard.Store(true) })
	if err != nil {
		return nil, fmt.Errorf("listening to this replica's own subject: %w", err)
	}
	l.sub = sub
	_ = c.SendBytes(ctx, subject, nil, nil) // lost without a connection: then others do not look for this replica
	return l, nil
}

// Heard says that what is sent to the replica's subject arrives. It does not where
// the replica's user may not listen there.
func (l *Listening) Heard() bool { return l.heard.Load() }

// Stop ends listening.
func (l *Listening) Stop() { _ = l.sub.Unsubscribe() } // fails when the connection is closed
