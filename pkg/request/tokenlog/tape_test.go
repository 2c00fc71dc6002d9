package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// tape is a stream in memory for followers. It can be made anew, or be closed.
type tape struct {
	bus.LogStore

	mu          sync.Mutex
	changed     chan struct{} // closed and made again at each change
	incarnation uint64
	messages    []bus.Stored
	closed      bool
	readers     int
	unsettled   int // questions for the state that are not answered
	asked       int // such questions
	clustered   bool
}

func newTape() *tape { return &tape{changed: make(chan struct{}), incarnation: 1} }

func (p *tape) change(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	close(p.changed)
	p.changed = make(chan struct{})
}

// add stores a message of a shard.
func (p *tape) add(shard int) { p.addSized(shard, 1) }

func (p *tape) addSized(shard, bytes int) {
	p.change(func() {
		p.messages = append(p.messages, bus.Stored{
			Subject: fmt.Sprintf("test.token.m.%d.r", shard), Sequence: uint64(len(p.messages) + 1), Incarnation: p.incarnation, Data: make([]byte, bytes),
		})
	})
}

// Last does what the bus's does for a shard.
func (p *tape) Last(_ context.Context, _, subject string) (bus.Stored, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range slices.Backward(p.messages) {
		if subject == "test.token.m."+shardToken(m.Subject)+".*" {
			return m, nil
		}
	}
	return bus.Stored{}, errors.New("none")
}

func (p *tape) replace() { p.change(func() { p.incarnation++; p.messages = nil }) }
func (p *tape) close()   { p.change(func() { p.closed = true }) }

func (p *tape) reading() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readers
}

// State is the stream's as far as the feed needs it.
func (p *tape) State(context.Context, string) (bus.StreamState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.unsettled > 0 {
		p.unsettled--
		return bus.StreamState{}, errors.New("no answer")
	}
	return bus.StreamState{Incarnation: p.incarnation, Last: uint64(len(p.messages))}, nil
}

func (p *tape) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *tape) Clustered() bool { return p.clustered }

func (p *tape) Try(_ string, fn func() error) error { return fn() }

var errClosed = errors.New("closed")

// Follow does what the bus's does.
func (p *tape) Follow(ctx context.Context, _ string, subjects []string, after bus.Place, fn func(bus.Stored) bool) error {
	p.change(func() { p.readers++ })
	defer p.change(func() { p.readers-- })
	for first := true; ; first = false {
		p.mu.Lock()
		rest, changed := p.messages[min(after.Sequence, uint64(len(p.messages))):], p.changed
		replaced := after.Incarnation != 0 && after.Incarnation != p.incarnation || first && after.Sequence > uint64(len(p.messages))
		after.Incarnation = p.incarnation
		closed := p.closed
		p.mu.Unlock()
		switch {
		case closed:
			return errClosed
		case replaced:
			return bus.ErrReplaced
		}
		for _, m := range rest {
			after.Sequence = m.Sequence
			wanted := slices.ContainsFunc(subjects, func(s string) bool {
				return s == names.Subjects.AnyToken() || s == "test.token.m."+shardToken(m.Subject)+".*"
			})
			if wanted && !fn(m) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
