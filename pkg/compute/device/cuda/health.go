package cuda

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// health knows whether a GPU is lost. Who computes with one has its methods.
type health struct {
	patience time.Duration
	once     sync.Once
	failed   chan struct{}
	why      error
}

func newHealth(patience time.Duration) *health {
	return &health{patience: patience, failed: make(chan struct{})}
}

// judge notes an error that is the end of the GPU, and returns it.
func (h *health) judge(err error) error {
	if errors.Is(err, cuda.ErrLost) {
		h.once.Do(func() {
			h.why = err
			close(h.failed)
		})
	}
	return err
}

// Lose ends the use of the GPU as if its driver had said so: the GPU's own word is that
// it is gone. why is a cuda.ErrLost.
func (h *health) Lose(why error) { _ = h.judge(why) } // it is what was given

// Failed is closed when the GPU is lost; Err says why.
func (h *health) Failed() <-chan struct{} { return h.failed }

// Err is why the GPU is lost; nil if it is not.
func (h *health) Err() error {
	select {
	case <-h.failed:
		return h.why
	default:
		return nil
	}
}

// lostError says that a GPU has not answered.
type lostError struct{ after time.Duration }

func (e *lostError) Error() string {
	return fmt.Sprintf("the GPU has not ended a call for %v", e.after)
}

func (e *lostError) Is(target error) bool { return target == cuda.ErrLost }

// brokenError is what the driver said of work that was under way, with a code that is of
// no kind: nobody knows what the GPU has left undone, so it is not used any more.
type brokenError struct{ said *cuda.Error }

func (e *brokenError) Error() string {
	return fmt.Sprintf("%v: waiting for it, %v", cuda.ErrLost, e.said)
}

func (e *brokenError) Is(target error) bool { return target == cuda.ErrLost }

func (e *brokenError) Unwrap() error { return e.said }

// ofWait is a wait's error: one of an unlisted code is the end of the GPU.
func ofWait(err error) error {
	if err == nil {
		return nil
	}
	var said *cuda.Error
	if errors.As(err, &said) && !said.Known() {
		return &brokenError{said}
	}
	return err
}

// waiter waits for the events of a lane or a load, so that waiting has an end.
type waiter struct {
	health *health
	event  cuda.Event
	ask    chan struct{}
	answer chan error
	timer  *time.Timer
}

func newWaiter(driver cuda.Driver, h *health) (*waiter, error) {
	e, err := driver.NewEvent()
	if err != nil {
		return nil, fmt.Errorf("making an event: %w", err)
	}
	w := &waiter{health: h, event: e, ask: make(chan struct{}), answer: make(chan error, 1), timer: time.NewTimer(h.patience)}
	go w.run()
	return w, nil
}

// run ends with close, or when the driver lets go of an event that never came.
func (w *waiter) run() {
	for range w.ask {
		w.answer <- w.event.Wait()
	}
}

func (w *waiter) record(s cuda.Stream) error { return w.health.judge(s.Record(w.event)) }

// pollFor is about what a layer of a decoding step takes: to be woken after it takes half as
// long again.
const pollFor = 200 * time.Microsecond

// wait returns when the GPU has come to the event.
func (w *waiter) wait() error {
	if err := w.health.Err(); err != nil {
		return err // the last wait may not have ended
	}
	if passed, err := w.event.Poll(pollFor); passed || err != nil {
		return w.health.judge(ofWait(err))
	}
	w.ask <- struct{}{}
	w.timer.Reset(w.health.patience)
	defer w.timer.Stop()
	select {
	case err := <-w.answer:
		return w.health.judge(ofWait(err))
	case <-w.health.failed: // by another call, or by the GPU's own word
		return w.health.why
	case <-w.timer.C:
		return w.health.judge(&lostError{w.health.patience})
	}
}

func (w *waiter) close(lost bool) {
	close(w.ask)
	if !lost {
		_ = w.event.Close() // the driver has said before what is wrong with it
	}
}
