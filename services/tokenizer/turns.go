package tokenizer

import (
	"context"
	"fmt"
	"sync"
)

// turns lets work on different requests go on at once, and work on the same
// request in the order in which it came. Which request a message is about is
// known only after decoding, which goes on at once as well. Requests of different tenants
// are never the same, so that nobody waits until another tenant's prompt is decoded.
type turns struct {
	mu    sync.Mutex
	last  map[string]*turn   // the newest of each request, by tenant and request
	lines map[string][]*turn // of each tenant, those that wait until it is known what all before them are about
}

// turn is one message's place in the line.
type turn struct {
	of      *turns
	tenant  string
	request string // "": none, or none any more
	known   bool
	ahead   chan *turn // gets the one before it of the same request, or nil, when it leaves the line
	done    chan struct{}
}

func newTurns() *turns { return &turns{last: map[string]*turn{}, lines: map[string][]*turn{}} }

// enter takes the next place among a tenant's.
func (t *turns) enter(tenant string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := &turn{of: t, tenant: tenant, ahead: make(chan *turn, 1), done: make(chan struct{})}
	t.lines[tenant] = append(t.lines[tenant], own)
	return own
}

// key names the turn's request.
func (n *turn) key() string { return n.tenant + " " + n.request }

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
	t.place(n.tenant)
	return true
}

// place gives those in the line whom nobody unknown precedes their place among those of
// their request. t.mu is held.
func (t *turns) place(tenant string) {
	line := t.lines[tenant]
	for ; len(line) > 0 && line[0].known; line = line[1:] {
		n := line[0]
		n.ahead <- t.last[n.key()]
		if n.request != "" {
			t.last[n.key()] = n
		}
	}
	if t.lines[tenant] = line; len(line) == 0 {
		delete(t.lines, tenant)
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
	if t.last[n.key()] == n {
		delete(t.last, n.key())
	}
	n.request, n.known = "", true // in the line, nobody waits for it
	t.place(n.tenant)
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
