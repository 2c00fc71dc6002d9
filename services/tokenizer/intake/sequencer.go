package intake

import (
	"context"
	"fmt"
	"sync"
)

// sequencer lets work on different requests go on at once, and work on the same
// request in the order in which it came. Which request a message is about is
// known only after decoding, which goes on at once as well. Requests of different tenants
// are never the same, so that none waits until another tenant's prompt is decoded.
type sequencer struct {
	mu    sync.Mutex
	last  map[string]*place   // the newest of each request, by tenant and request
	lines map[string][]*place // of each tenant, those that wait until it is known what all before them are about
}

// place is one message's place in the line.
type place struct {
	of      *sequencer
	tenant  string
	request string // "": none, or none any more
	known   bool
	ahead   chan *place // gets the one before it of the same request, or nil, when it leaves the line
	done    chan struct{}
}

func newSequencer() *sequencer {
	return &sequencer{last: map[string]*place{}, lines: map[string][]*place{}}
}

// enter takes the next place among a tenant's.
func (t *sequencer) enter(tenant string) *place {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := &place{of: t, tenant: tenant, ahead: make(chan *place, 1), done: make(chan struct{})}
	t.lines[tenant] = append(t.lines[tenant], own)
	return own
}

// key names the place's request.
func (n *place) key() string { return n.tenant + " " + n.request }

// await says which request the place is about, once, and returns when what came
// before for the same request is done. After leave it does not wait.
func (n *place) await(ctx context.Context, request string) error {
	if !n.of.name(n, request) {
		return nil
	}
	late := func() error {
		return fmt.Errorf("waiting for an earlier prompt of request %s: %w", request, ctx.Err())
	}
	var before *place
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

// name says what a place is about, unless it has ended.
func (t *sequencer) name(n *place, request string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.ended() {
		return false
	}
	n.request, n.known = request, true
	t.advance(n.tenant)
	return true
}

// advance gives those in the line whom no unknown one precedes their place among those of
// their request. t.mu is held.
func (t *sequencer) advance(tenant string) {
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

// leave ends the place, which may have ended before. It waits for none.
func (n *place) leave() {
	t := n.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.ended() {
		return
	}
	if t.last[n.key()] == n {
		delete(t.last, n.key())
	}
	n.request, n.known = "", true // in the line, none waits for it
	t.advance(n.tenant)
	close(n.done)
}

func (n *place) ended() bool {
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}
