package attention

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ownership asks whether a request is being worked on here.
type ownership struct {
	request string
	answer  chan<- bool
}

// owns asks the engine; false also when ctx ends.
func (e *engine) owns(ctx context.Context, request string) bool {
	answer := make(chan bool, 1)
	select {
	case e.asks <- ownership{request, answer}:
		return <-answer
	case <-ctx.Done():
		return false
	}
}

// abandon frees a sequence whose log another claim has, as soon as its worker is done.
func (d *scheduler) abandon(s *sequence) {
	s.ended = true
	s.delivery.drop()
	if s.flight == nil {
		d.remove(s)
	}
}

// drop forgets a sequence whose log another writer has ended or claimed, or has
// no room for it.
func (d *scheduler) drop(l lostLog) {
	s := d.sequences[l.request]
	switch {
	case s == nil || s.writer != l.writer:
	case l.full != nil && !s.ended:
		d.log.Warn("a request was ended: its log takes no more", "request", l.request, "tokens", s.generated(), "error", l.full)
		s.end = noRoom(l.full)
		s.end.Timings = s.timings(d.now())
		d.close(s)
	case l.full == nil:
		d.abandon(s)
	}
}

// roomPause is how long a producer should wait whose request found the log full.
const roomPause = 2 * time.Second

// noRoom is the end of a sequence whose log is full.
func noRoom(why error) *pb.Terminal {
	end := errorEnd("overloaded", fmt.Sprintf("the rest of the answer could not be written: %v", why))
	end.Error.RetryAfter = roomPause.Seconds()
	return end
}

// handOverWithin bounds the wait for the logs of a replica that stops.
const handOverWithin = 2 * time.Second

// leave is what a replica that stops leaves to another: logs to be written to
// their end, and sequences to go on with from there.
func (d *scheduler) leave() (closing []logWriter, open []*sequence) {
	if s := d.trial.of; s != nil {
		d.endTrial(s)
	}
	for _, s := range d.order {
		if !s.ended {
			open = append(open, s)
		}
	}
	return d.closing, open
}

// handOver lets another replica go on at once, and from where this one stopped.
func (e *engine) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	var flushing sync.WaitGroup
	closing, open := e.leave()
	for _, w := range closing {
		flushing.Go(func() { e.flush(ctx, w) })
	}
	for _, s := range open {
		flushing.Go(func() {
			e.flush(ctx, s.writer)
			if err := s.delivery.Nak(0); err != nil {
				e.log.Debug("handing over", "request", s.seq.RequestId, "error", err)
			}
		})
	}
	flushing.Wait()
}

// flush waits for a log's records. What is not stored in time is lost, and the
// next owner makes it again.
func (e *engine) flush(ctx context.Context, w logWriter) {
	if err := w.Flush(ctx); err != nil {
		e.log.Info("handing over a log", "error", err)
	}
}

func isClosed(w logWriter) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}
