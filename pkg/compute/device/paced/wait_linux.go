package paced

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarms wait by timer descriptors, which wake the poller tens of microseconds
// after their time. They keep those that are idle.
type alarms struct {
	mu     sync.Mutex
	idle   []*alarm
	closed bool
}

func newWaiter() waiter { return &alarms{} }

func (a *alarms) until(ctx context.Context, t time.Time) error {
	if time.Until(t) <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	one, err := a.take()
	if err != nil { // too many open files: late is better than never
		return timers{}.until(ctx, t)
	}
	if err = one.until(ctx, t); err != nil {
		one.close()
		if ctx.Err() == nil {
			return timers{}.until(ctx, t)
		}
		return ctx.Err()
	}
	a.give(one)
	return nil
}

func (a *alarms) take() (*alarm, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.idle); n > 0 {
		one := a.idle[n-1]
		a.idle = a.idle[:n-1]
		return one, nil
	}
	return newAlarm()
}

func (a *alarms) give(one *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		one.close()
		return
	}
	a.idle = append(a.idle, one)
}

func (a *alarms) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, one := range a.idle {
		one.close()
	}
	a.idle = nil
}

// alarm is a timer descriptor. One goroutine at a time uses it.
type alarm struct {
	fd   int
	file *os.File // of fd: reading parks the goroutine, not a thread
	buf  [8]byte
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a timer: %w", err)
	}
	return &alarm{fd: fd, file: os.NewFile(uintptr(fd), "timer")}, nil
}

// until fails when ctx ends before. The alarm is of no use then.
//
// The read's deadline, one of Go's timers, is looked at between any two
// goroutines of a busy process, where the poller is not; the descriptor wakes an idle one.
func (a *alarm) until(ctx context.Context, t time.Time) error {
	if err := a.file.SetReadDeadline(t); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = a.file.SetReadDeadline(time.Unix(1, 0)) }) // as above
	defer stop()
	for left := time.Until(t); left > 0 && ctx.Err() == nil; left = time.Until(t) {
		in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
		if err := unix.TimerfdSettime(a.fd, 0, &in, nil); err != nil {
			return fmt.Errorf("setting a timer: %w", err)
		}
		if _, err := a.file.Read(a.buf[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

func (a *alarm) close() { _ = a.file.Close() } // nothing was written
