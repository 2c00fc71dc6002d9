package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

const (
	// takenWithin is how long a replay waits for a prompt that no tokenizer has
	// taken in yet, and the pauses between its looks.
	takenWithin          = 15 * time.Second
	firstLook, laterLook = 20 * time.Millisecond, time.Second
	// takenAge is how old a look may be that others share.
	takenAge = 250 * time.Millisecond
)

// awaitLog returns the sequence of a request's last record. One that is unknown may be
// accepted and not yet taken in, until all prompts are that were there when it was asked for. And its log may be about to
// be written again, while it is not long since this replica's own connection came back, to a server that may have lost it.
func (s *Replays) awaitLog(ctx context.Context, request string) (last uint64, err error) {
	begun := time.Now()
	if last, err = s.log.Last(ctx, request); !errors.Is(err, tokenlog.ErrUnknown) {
		return last, err
	}
	var then bus.StreamState
	for pauses := pause.Between(firstLook, laterLook); ; {
		taken := s.taken(&then, begun) && time.Since(s.d.Conn.Regained()) > resettling
		last, err = s.log.Last(ctx, request) // after the look
		switch {
		case taken || !errors.Is(err, tokenlog.ErrUnknown):
			return last, err
		case time.Since(begun) > takenWithin:
			return last, &edge.Error{
				Code: edge.Overloaded, RetryAfter: admission.OverloadPause,
				Message: fmt.Sprintf("request_id %q is not known yet, and prompts wait to be taken in; ask again", request),
			}
		}
		if err := pauses.Wait(ctx); err != nil {
			return last, fmt.Errorf("waiting for request %s: %w", request, err)
		}
	}
}

// taken reports whether all prompts are taken in that waited when a replay was asked
// for; then is how the queue was, and is set by the first look.
func (s *Replays) taken(then *bus.StreamState, asked time.Time) bool {
	if old := time.Now().Add(-takenAge); then.Incarnation != 0 || old.After(asked) {
		asked = old // a later look serves as well, and one that failed is tried again
	}
	now, err := s.prompts.since(asked, func() (bus.StreamState, error) {
		return s.d.Conn.State(s.ctx, s.d.Streams.Prompts().Name)
	})
	if err != nil {
		return false
	}
	if then.Incarnation == 0 {
		*then = now
	}
	return through(*then, now)
}

// through reports whether all of a queue's messages are handled that it had then. One that
// never had any says that its first and its last are 0.
func through(then, now bus.StreamState) bool {
	return then.Last == 0 || now.First > then.Last || now.Incarnation != then.Incarnation
}

// sight is a look at a stream that all share that want one: thousands may wait at once.
type sight struct {
	mu    sync.Mutex
	began time.Time
	state bus.StreamState
	err   error
}

// since returns a look that began at t or later: the last one, or a new one. Who
// asks during a look shares the next.
func (l *sight) since(t time.Time, look func() (bus.StreamState, error)) (bus.StreamState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.Before(t) {
		l.began = time.Now()
		l.state, l.err = look()
	}
	return l.state, l.err
}

const (
	// goneAfter is how long the server has to say that a caller does not listen: one that
	// reconnects is back by then.
	goneAfter = 600 * time.Millisecond
	// resettling is how long that is no news after this replica's own connection came back:
	// the server was away for callers too, and NATS's clients wait seconds between their tries. A log that the server
	// has lost is written again by then.
	resettling = 10 * time.Second
	// absentFor is when what the server said is too old to be the beginning of an absence.
	absentFor = 10 * time.Second
)

// absences are requests whose caller did not listen when a chunk was sent, and since when, a
// bounded number of them.
type absences struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// lasts notes that a request's caller does not listen now, and reports whether that has been so
// for goneAfter.
func (a *absences) lasts(request string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	begun, known := a.since[request]
	if known && now.Sub(begun) < absentFor {
		return now.Sub(begun) >= goneAfter
	}
	if len(a.since) >= maxEnding {
		maps.DeleteFunc(a.since, func(_ string, begun time.Time) bool { return now.Sub(begun) >= absentFor })
	}
	if known || len(a.since) < maxEnding {
		if a.since == nil {
			a.since = map[string]time.Time{}
		}
		a.since[request] = now
	}
	return false
}
