package engine

import (
	"context"
	"sync/atomic"

	"github.com/switchyard/switchyard/internal/pause"
)

// Line is what the engine tells other goroutines of the sequences that it has, and what
// they tell of those that are about to come.
type Line struct {
	inLine    atomic.Int64  // sequences that wait for pages
	entering  atomic.Int64  // sequences that had their turn, and are not with the scheduler yet
	unread    atomic.Int64  // rows of prompts that are to be computed
	unstepped atomic.Int64  // sequences of which no step has had a row
	moved     chan struct{} // holds a signal after each change for the better
	fills     int64         // rows of prompts that fill all workers
}

func newLine(fills int) *Line { return &Line{moved: make(chan struct{}, 1), fills: int64(fills)} }

// Await waits until at most so many sequences wait for pages, or are about to;
// false when ctx ended before.
func (l *Line) Await(ctx context.Context, most int64) bool {
	for l.inLine.Load()+l.entering.Load() > most {
		select {
		case <-l.moved:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// Enter says that a sequence has its turn.
func (l *Line) Enter() { l.entering.Add(1) }

// Entered says that a sequence that had its turn is with the scheduler, or is not to be.
func (l *Line) Entered() {
	l.entering.Add(-1)
	pause.Wake(l.moved)
}

// Waits says whether a sequence waits for pages.
func (l *Line) Waits() bool { return l.inLine.Load() > 0 }

// Occupied says that what was claimed here fills all workers.
func (l *Line) Occupied() bool { return l.entering.Load() > 0 || l.unread.Load() >= l.fills }

// Unstepped is how many sequences that had their turn wait for their first row in a step.
func (l *Line) Unstepped() int { return int(l.entering.Load() + l.unstepped.Load()) }

// tell is how many sequences wait for pages, and for their first step, and how much of
// prompts is to be computed.
func (l *Line) tell(inLine, unstepped, unread int64) {
	l.unread.Store(unread)
	l.unstepped.Store(unstepped)
	if l.inLine.Swap(inLine) > inLine {
		pause.Wake(l.moved)
	}
}
