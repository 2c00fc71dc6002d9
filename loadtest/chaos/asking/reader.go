package asking

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/loadtest/chaos/check"
)

// replays ends the inbox to which a reader has what it misses sent: refusals of
// a replay are told from the request's own end by it.
const replays = "-replay"

type reader struct {
	inbox   string
	request string
	changed chan struct{} // has room for one
	learns  bool          // makes the reference
	again   bool          // reads what has ended: its pauses say nothing of faults

	mu      sync.Mutex
	stream  *check.Stream
	learnt  []string
	refused int
	asked   time.Duration // when a replay was asked for
	breaks  int64         // of the connection, by then
	replays int
}

// open begins to read at an inbox that the request's id and a name make.
func (l *Load) open(e check.Expect, name string) *reader {
	return l.read(e.Request, name, check.New(e, l.Now()), false)
}

func (l *Load) read(request, name string, s *check.Stream, again bool) *reader {
	r := &reader{
		inbox: l.inbox(request + "." + name), request: request, changed: make(chan struct{}, 1),
		stream: s, again: again, asked: l.Now(), breaks: l.breaks.Load(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[r.inbox] = r
	return r
}

func (l *Load) close(r *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream.Close(l.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r.inbox)
	if r.learns {
		return
	}
	l.result.Replays += r.replays
	l.result.Refused += r.refused
	l.result.Repeats += r.stream.Repeats()
	l.result.Overtaken += r.stream.Overtaken()
	l.result.Violations = append(l.result.Violations, r.stream.Violations()...)
	if !r.again {
		l.result.Stalls = append(l.result.Stalls, r.stream.Stalls()...)
	}
}

// take takes a chunk in. A replay may be refused while nobody can answer it, by a
// tokenizer or, without a body, by the server: it is asked for again.
func (r *reader) take(at time.Duration, body []byte, replayed bool) {
	c, err := check.Decode(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if replayed && (len(body) == 0 || err == nil && c.Index < 0) {
		r.refused++
		return
	}
	if r.learns && err == nil {
		r.learn(&c)
	}
	r.stream.Take(at, body)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// learn makes a chunk the one that is wanted from now on.
func (r *reader) learn(c *check.Chunk) {
	if c.Index == len(r.learnt) {
		r.learnt = append(r.learnt, r.stream.Content(c))
		r.stream.Want(r.learnt)
	}
}

// reference is what it has learnt, if that is a whole answer.
func (r *reader) reference() ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch wrong := r.stream.Violations(); {
	case len(wrong) > 0:
		return nil, fmt.Errorf("after %d tokens: %s: %s", r.stream.Next(), wrong[0].What, wrong[0].Detail)
	case r.stream.Ended() != check.Whole:
		return nil, fmt.Errorf("it ended with %q after %d tokens", r.stream.Ended(), r.stream.Next())
	}
	return r.learnt, nil
}

func (r *reader) lose(at time.Duration, what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream.Fail(at, check.Lost, "%s: %v", what, err)
}

// silence is how long no new index may come before a replay is asked for, and
// look how often that is looked at.
const (
	silence = time.Second
	look    = 50 * time.Millisecond
)

// follow reads until everything is there, or the answer counts as lost; on its
// way it calls progress with the next index.
func (l *Load) follow(ctx context.Context, r *reader, progress func(next int)) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		next, done := l.step(r)
		if progress != nil {
			progress(next)
		}
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-tick.C:
		}
	}
}

// step looks whether the reading is over, and asks for what is missing.
func (l *Load) step(r *reader) (next int, done bool) {
	now := l.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	next, last := r.stream.Next(), r.stream.Last()
	if r.stream.Done() || now-last > l.settings.Hang {
		return next, true
	}
	broken := l.breaks.Load()
	if l.nc.IsConnected() && (now-max(last, r.asked) > silence || broken > r.breaks) {
		r.asked, r.breaks = now, broken
		r.replays++
		l.replay(r, next)
	}
	return next, false
}

func (l *Load) replay(r *reader, from int) {
	m := nats.NewMsg(l.subject("replay"))
	m.Reply = r.inbox + replays
	m.Data = encode(map[string]any{"request_id": r.request, "from_index": from})
	_ = l.nc.PublishMsg(m) // it is asked for again
}
