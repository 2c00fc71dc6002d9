package queue

import (
	"context"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// places are how many sequences can begin, here and on siblings.
type places struct {
	slots   *slots
	waiting *waiting
	line    *engine.Line
	members Members
	replica string
}

// free is how many sequences more this replica can begin at once: none while
// some wait for their turn, or for pages.
func (p *places) free() int {
	if p.waiting.size() > 0 || p.line.Waits() {
		return 0
	}
	return p.slots.unused()
}

// elsewhere is how many sequences other replicas can begin at once, and how
// many pages each of these has at least.
func (p *places) elsewhere() (n int, pages float64) {
	return members.PlacesElsewhere(p.members.Snapshot(), p.replica)
}

// slots counts how many more sequences a replica takes.
type slots struct {
	tokens chan struct{}
}

func newSlots(n int) *slots {
	s := &slots{tokens: make(chan struct{}, n)}
	for range n {
		s.tokens <- struct{}{}
	}
	return s
}

// wait returns when a slot is free; false when ctx ended before.
func (s *slots) wait(ctx context.Context) bool {
	select {
	case t := <-s.tokens:
		s.tokens <- t
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *slots) unused() int { return len(s.tokens) }
func (s *slots) take()       { <-s.tokens }
func (s *slots) release()    { s.tokens <- struct{}{} }
