package engine

import (
	"context"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// inbox is what happens, for the engine's goroutine to take in.
type inbox struct {
	admitted chan *Sequence
	finished chan *microbatch
	cancels  chan *pb.Cancel
	lost     chan lostLog
	asks     chan ownership
	room     chan struct{}
	stopped  <-chan struct{} // closed when nothing is taken in any more
}

func newInbox(workers int, stopped <-chan struct{}) inbox {
	return inbox{
		admitted: make(chan *Sequence), finished: make(chan *microbatch, workers), cancels: make(chan *pb.Cancel, 64),
		lost: make(chan lostLog, 64), asks: make(chan ownership), room: make(chan struct{}, 1), stopped: stopped,
	}
}

// Admit hands a sequence over that was claimed. It fails when ctx ended before.
func (x *inbox) Admit(ctx context.Context, s *Sequence) error {
	select {
	case x.admitted <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends a request early, if the engine has it.
func (x *inbox) End(request, reason string) {
	if schemas.CheckRequestID(request) != nil {
		return
	}
	select {
	case x.cancels <- &pb.Cancel{RequestId: request, Reason: reason}:
	case <-x.stopped:
	}
}

// ownership asks whether a request is being worked on here.
type ownership struct {
	request string
	answer  chan<- bool
}

// Owns says whether a request is being worked on here; false also when ctx ends.
func (x *inbox) Owns(ctx context.Context, request string) bool {
	answer := make(chan bool, 1)
	select {
	case x.asks <- ownership{request, answer}:
		return <-answer
	case <-ctx.Done():
		return false
	}
}

// lostLog says that a sequence's log takes no more of it.
type lostLog struct {
	request string
	writer  logWriter
	full    error // its end is queued, since there was no room; nil: it is not ours to write
}

// tell lets the engine know what became of a log.
func (x *inbox) tell(l lostLog) {
	select {
	case x.lost <- l:
	case <-x.stopped:
	}
}

// haveRoom wakes the engine: a sequence that was passed over may step again.
func (x *inbox) haveRoom() { pause.Wake(x.room) }
