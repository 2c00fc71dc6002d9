package tokenizer

import (
	"context"
	"fmt"
	"sync"
)

// turns lets work on different requests go on at once, and work on the same
// request in the order in which it came. Which request a message is about is
// known only after decoding, which goes on at once as well.
type turns struct {
	mu   sync.Mutex
	last map[string]*turn // the newest of each request
	line []*turn          // those that wait until it is known what all before them are about
}

// turn is one message's place in the line.
type turn struct {
	of      *turns
	request string // "": none, or none any more
	known   bool
	ahead   chan *turn // gets the one before it of the same request, or nil, when it leaves the line
	done    chan struct{}
}

func newTurns() *turns { return &turns{last: map[string]*turn{}} }

// enter takes the next place.
func (t *turns) enter() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := &turn{of: t, ahead: make(chan *turn, 1), done: make(chan struct{})}
	t.line = append(t.line, own)
	return own
}

// await says which request the turn is about, once, and returns when what came
// before for the same request is done. After leave it does not wait.
func (n *turn) await(ctx context.Context, request string) error {
	if !n.of.name(n, request) {
		return nil
	}
	late := func() error {
		return fmt.Errorf("waiting for an earlier prompt of request %s: %w", request, ctx.Err())
	}
	var before *turn
	select {
	case before = <-n.ahead:
	case <-ctx.Done():
		return late()
	}
	if before == nil {
		return nil
	}
	select {
	case <-before.done:
		return nil
	case <-ctx.Done():
		return late()
	}
}

// name says what a turn is about, unless it has ended.
func (t *turns) name(n *turn, request string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.ended() {
		return false
	}
	n.request, n.known = request, true
	t.place()
	return true
}

// place gives those in the line whom nobody unknown precedes their place among those of
// their request. t.mu is held.
func (t *turns) place() {
	for len(t.line) > 0 && t.line[0].known {
		n := t.line[0]
		t.line = t.line[1:]
		n.ahead <- t.last[n.request]
		if n.request != "" {
			t.last[n.request] = n
		}
	}
}

// leave ends the turn, which may have ended before. It waits for nobody.
func (n *turn) leave() {
	t := n.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.ended() {
		return
	}
	if t.last[n.request] == n {
		delete(t.last, n.request)
	}
	n.request, n.known = "", true // in the line, nobody waits for it
	t.place()
	close(n.done)
}

func (n *turn) ended() bool {
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}
