package tokenlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// MaxUnwritten is how many records of one request may wait in memory before its
// owner makes no more: a stream that is full or away must not fill the memory,
// and what waits is lost with this process.
const MaxUnwritten = 32

// WriterSettings are what code sets. Lost and Finished are called at most once,
// and only one of them.
type WriterSettings struct {
	// Lost is told that the log is not ours to write any more: ErrStale,
	// ErrFinished when another ended the request, or what made writing
	// impossible. It has a goroutine of its own.
	Lost func(w *Writer, err error)
	// Finished is told that the terminal record is stored. It must not block.
	Finished func()
	// Room is told that Full has become false. It must not block.
	Room func()
	// Cut makes the end of a request whose log has had no room for too long;
	// what was not written by then is dropped, and Finished or Lost follows. It
	// must not block. nil: the records wait for as long as it takes.
	Cut func(w *Writer, why error) *pb.Terminal
}

// Writer appends to a request's log as its owner. One append at a time is
// under way; those behind it wait in memory, so Append does not wait.
//
//	idle ──Append──▶ flying ──ack──▶ next in the queue, or idle
//	                  │  ▲
//	                  │  └─ stored after all, or a transient error: again
//	                  ├─ noise came between ─▶ again, behind it
//	                  ├─ another record came between ─▶ lost (stale, finished)
//	                  ├─ what it builds on is gone ─▶ written again, or lost (unknown)
//	                  ├─ no room ─▶ again later; for too long ─▶ the end in place of the queue
//	                  └─ ack of the terminal record ──▶ finished
type Writer struct {
	log      *Log
	request  string
	subject  string
	epoch    uint64
	doubtful bool
	settings WriterSettings
	// What each append says again, made once: behind which record it comes, and who
	// hears of it.
	behind   nats.Header
	answered func(seq uint64, err error)
	// full is looked at for every step, also while w.mu is held for a publish.
	full atomic.Bool

	mu     sync.Mutex
	last   uint64 // sequence of the newest message known to be stored, noise or not
	queue  []unwritten
	stored Chain     // as far as it is stored
	queued Chain     // with what is in the queue
	tries  int       // of the first one
	flying int64     // its size, as room has it
	doubt  bool      // an attempt at it had no answer: it may be stored
	trial  bool      // a trial's beginning is in the queue
	waits  time.Time // since when there is no room for what is queued; zero: there is
	lacks  time.Time // since when conflicts are with nothing that can be read; zero: they are not
	seen   time.Time // when the log's last message was known to be ours
	kept   kept      // what is stored of it; mend reads it while nothing is under way
	err    error
	done   chan struct{} // closed when nothing more will be written
	idle   chan struct{} // closed when the queue is empty; nil when nobody waits
}

// unwritten is a record that waits; the queue's first one is under way.
type unwritten struct {
	record *pb.Record
	data   []byte
}

func newWriter(l *Log, request string, last uint64, c Chain, s WriterSettings) *Writer {
	w := &Writer{
		log: l, request: request, subject: l.names.Subjects.Token(request), epoch: c.epoch,
		doubtful: c.Doubtful(), last: last, seen: time.Now(), stored: c, queued: c, settings: s, done: make(chan struct{}), behind: expect(last),
	}
	w.answered = w.landed
	return w
}

// Epoch returns the claim's.
func (w *Writer) Epoch() uint64 { return w.epoch }

// Doubtful says that the request is to be stepped alone, each time under a Trial.
func (w *Writer) Doubtful() bool { return w.doubtful }

// Done is closed when the terminal record is stored or the log is lost.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Err is why the log was lost; nil while it is not.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Full says that the owner shall make no more records until Room is called: too many
// wait, or a trial has begun and that is not stored yet.
func (w *Writer) Full() bool { return w.full.Load() }

// Append adds a record; it gets the claim's epoch. It returns an error when the
// record cannot be written: it does not follow those before, the server would
// not take its size, or the log is lost. Whether it is stored is for Flush,
// Finished and Lost to tell.
func (w *Writer) Append(r *pb.Record) error {
	r.Epoch = w.epoch
	data, err := w.log.encode(w.subject, r)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case w.queued.end != nil:
		return fmt.Errorf("%w: %s", ErrFinished, w.request)
	}
	if _, err := w.queued.Take(r); err != nil {
		return fmt.Errorf("appending to the log of %s: %w", w.request, err)
	}
	w.queue = append(w.queue, unwritten{r, data})
	w.trial = w.trial || begins(r)
	w.full.Store(len(w.queue) >= MaxUnwritten || w.trial)
	if len(w.queue) == 1 {
		w.launch()
	}
	return nil
}

// Flush waits until everything appended is stored.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	if w.err != nil || len(w.queue) == 0 {
		defer w.mu.Unlock()
		return w.err
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
	}
	idle := w.idle
	w.mu.Unlock()
	select {
	case <-idle:
		return w.Err()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the log of %s: %w", w.request, ctx.Err())
	}
}

// launch sends the first record of the queue; w.mu is held. What may be stored
// already is sent whatever room there is: the answer tells.
func (w *Writer) launch() {
	if w.log.conn.Regained().After(w.seen) {
		go w.lookAgain()
		return
	}
	first := w.queue[0]
	size := StoredSize(w.subject, int64(len(first.data)))
	if w.doubt || !needsRoom(first.record) {
		w.log.room.force(size)
	} else if err := w.log.room.take(size); err != nil {
		w.await(err)
		return
	}
	w.tries++
	w.flying = size
	w.behind[nats.ExpectedLastSubjSeqHdr][0] = strconv.FormatUint(w.last, 10)
	err := w.log.conn.StoreAsync(context.Background(), w.subject, first.data, w.behind, w.answered)
	if err != nil {
		w.log.room.landed(size, true)
		w.failed(err)
	}
}

// landed is called with the acknowledgement, on the bus's goroutine.
func (w *Writer) landed(seq uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.room.landed(w.flying, err != nil && (bus.IsFull(err) || bus.IsWrongSequence(err)))
	if w.err != nil {
		return
	}
	if err != nil {
		w.failed(err)
		return
	}
	w.advance(seq)
}

// advance goes on behind a record that is in the log; w.mu is held.
func (w *Writer) advance(seq uint64) {
	w.last, w.tries, w.doubt, w.lacks = seq, 0, false, time.Time{}
	_, _ = w.stored.Take(w.queue[0].record) // did when it was queued
	w.kept.add(w.queue[0].data)
	w.trial = w.trial && !begins(w.queue[0].record)
	w.queue[0] = unwritten{} // or the array keeps it
	w.queue = w.queue[1:]
	if w.full.Load() && len(w.queue) <= MaxUnwritten/2 && !w.trial {
		w.full.Store(false)
		if w.settings.Room != nil {
			w.settings.Room()
		}
	}
	if len(w.queue) > 0 {
		w.launch()
		return
	}
	w.queue, w.waits = nil, time.Time{}
	w.wake()
	if w.stored.end != nil {
		close(w.done)
		if w.settings.Finished != nil {
			w.settings.Finished()
		}
	}
}

func (w *Writer) wake() {
	if w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
}

// Pauses between attempts at a record. They stay short: all tokens of a request wait
// for the one that a server which is back has not got, and without a connection an
// attempt costs nothing.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 100 * time.Millisecond
)

// failed decides what an error of the first record means; w.mu is held.
func (w *Writer) failed(err error) {
	switch {
	case bus.IsWrongSequence(err):
		go w.resolve() // reads from the server, so not on the bus's goroutine
	case errors.Is(err, nats.ErrConnectionClosed):
		w.lose(err) // this process is stopping
	case bus.IsFull(err):
		w.doubt = false // an attempt that had been stored before would be in its way
		w.await(w.log.room.refused())
	case bus.Transient(err):
		w.doubt = true // the request must not be lost for what passes
		time.AfterFunc(min(firstRetry<<min(w.tries-1, 10), lastRetry), w.relaunch)
	default:
		w.lose(fmt.Errorf("appending to the log of %s: %w", w.request, err))
	}
}

func (w *Writer) relaunch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.launch()
	}
}

// resolveWithin bounds one attempt to find out about a conflict.
const resolveWithin = 5 * time.Second

// resolve finds out after a conflict whether our record is stored, who came
// between, or behind which noise to go on.
func (w *Writer) resolve() {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWithin)
	defer cancel()
	w.mu.Lock()
	data, behind, chain := w.queue[0].data, w.last, w.stored
	w.mu.Unlock()
	ours, behind, err := w.log.between(ctx, w.request, &chain, data, behind)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && ours:
		w.advance(behind)
	case err == nil:
		w.last = behind
		w.launch()
	case errors.Is(err, ErrUnknown) && w.mayCome():
		w.failed(nats.ErrTimeout)
	case errors.Is(err, ErrUnknown):
		go w.mend()
	case errors.Is(err, ErrStale), errors.Is(err, ErrFinished):
		w.lose(err)
	case errors.Is(err, context.DeadlineExceeded):
		w.failed(nats.ErrTimeout) // the append is tried again and conflicts again
	default:
		w.failed(err)
	}
}

// mayCome reports whether a conflict with nothing may still be explained; w.mu is
// held. One server knows at once that what a writer built upon is gone. In a
// cluster an earlier attempt may be on its way to the other servers, and a server
// that is cut off from them may lack what they have.
func (w *Writer) mayCome() bool {
	if w.lacks.IsZero() {
		w.lacks = time.Now()
	}
	return w.log.conn.Clustered() && time.Since(w.lacks) < bus.SettlesWithin
}

// between looks at what lies behind a writer's last record: its next one (ours,
// and where), another's, which is an error, or noise only, and up to where.
func (l *Log) between(ctx context.Context, request string, c *Chain, data []byte, behind uint64) (ours bool, at uint64, err error) {
	for at = behind; ; {
		next, err := l.conn.Next(ctx, l.stream, l.names.Subjects.Token(request), at+1)
		switch {
		case errors.Is(err, bus.ErrNoMessage) && at == behind:
			return false, 0, fmt.Errorf("%w: %s", ErrUnknown, request) // what it built upon is gone
		case errors.Is(err, bus.ErrNoMessage):
			return false, at, nil
		case err != nil:
			return false, 0, err
		case bytes.Equal(next.Data, data):
			return true, next.Sequence, nil
		}
		if e, err := decode(next); err == nil && e.Record.GetAccept() != nil && e.Record.Epoch > 0 {
			return false, 0, fmt.Errorf("%w: %s", ErrUnknown, request) // it was begun anew
		}
		at = next.Sequence
		noise := 1 // who reads the log tells of its first
		l.each(request, c, &noise, next, func(Entry) bool { err = overtaken(request, c); return false })
		if err != nil {
			return false, 0, err
		}
	}
}

// overtaken says what another's record means to a writer.
func overtaken(request string, c *Chain) error {
	if c.end != nil {
		return fmt.Errorf("%w: %s", ErrFinished, request)
	}
	return fmt.Errorf("%w: %s", ErrStale, request)
}

// lose ends writing; w.mu is held.
func (w *Writer) lose(err error) {
	w.err = err
	w.queue = nil
	w.wake()
	close(w.done)
	if w.settings.Lost != nil {
		go w.settings.Lost(w, err)
	}
}
