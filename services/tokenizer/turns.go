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
	tail *turn            // the newest of all
}

// turn is one message's place in the line.
type turn struct {
	of      *turns
	before  *turn
	request string
	named   chan struct{} // closed when it is known which request it is about
	done    chan struct{}
}

func newTurns() *turns { return &turns{last: map[string]*turn{}} }

// enter takes the next place.
func (t *turns) enter() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := &turn{of: t, before: t.tail, named: make(chan struct{}), done: make(chan struct{})}
	t.tail = own
	return own
}

// await says which request the turn is about, and returns when what came
// before for the same request is done. After leave it does not wait.
func (n *turn) await(ctx context.Context, request string) error {
	select {
	case <-n.done:
		return nil
	default:
	}
	ahead := n.name(request)
	if ahead == nil {
		return nil
	}
	select {
	case <-ahead.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for an earlier prompt of request %s: %w", request, ctx.Err())
	}
}

// name takes the place among those of its request, once all before it have.
func (n *turn) name(request string) (ahead *turn) {
	if n.before != nil {
		<-n.before.named
		n.before = nil
	}
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.request = request
	if request != "" {
		ahead = n.of.last[request]
		n.of.last[request] = n
	}
	close(n.named)
	return ahead
}

// leave ends the turn, which may have ended before.
func (n *turn) leave() {
	select {
	case <-n.named:
	default:
		n.name("")
	}
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	select {
	case <-n.done:
		return
	default:
	}
	if n.of.last[n.request] == n {
		delete(n.of.last, n.request)
	}
	close(n.done)
}
