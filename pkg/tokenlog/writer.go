package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxBacklog bounds the records of one request that wait in memory: a server
// that is away for long must not fill it.
const maxBacklog = 4096

// WriterSettings are what code sets. Both functions are called at most once,
// and only one of them.
type WriterSettings struct {
	// Lost is told that the log is not ours to write any more: ErrStale,
	// ErrFinished when another ended the request, or what made writing
	// impossible. It has a goroutine of its own.
	Lost func(w *Writer, err error)
	// Finished is told that the terminal record is stored. It must not block.
	Finished func()
}

// Writer appends to a request's log as its owner. One append at a time is
// under way; those behind it wait in memory, so Append does not wait.
//
//	idle ──Append──▶ flying ──ack──▶ next in the queue, or idle
//	                  │  ▲
//	                  │  └─ stored after all, or a transient error: again
//	                  ├─ another record came between ─▶ lost (stale, finished)
//	                  └─ ack of the terminal record ──▶ finished
type Writer struct {
	log      *Log
	request  string
	subject  string
	epoch    uint64
	settings WriterSettings

	mu     sync.Mutex
	last   uint64   // sequence of the newest record known to be stored
	queue  [][]byte // the first one is under way
	closed bool     // a terminal record is in the queue
	tries  int      // of the first one
	err    error
	done   chan struct{} // closed when nothing more will be written
	idle   chan struct{} // closed when the queue is empty; nil when nobody waits
}

func newWriter(l *Log, request string, epoch, last uint64, s WriterSettings) *Writer {
	return &Writer{
		log: l, request: request, subject: l.names.Token(request),
		epoch: epoch, last: last, settings: s, done: make(chan struct{}),
	}
}

// Epoch is the claim's.
func (w *Writer) Epoch() uint64 { return w.epoch }

// Done is closed when the terminal record is stored or the log is lost.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Err is why the log was lost; nil while it is not.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Append adds a record. A token gets the claim's epoch. It returns an error
// when nothing more can be written; whether the record is stored is for Flush,
// Finished and Lost to tell.
func (w *Writer) Append(r *pb.Record) error {
	if t := r.GetToken(); t != nil {
		t.Epoch = w.epoch
	}
	data, err := proto.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a record of %s: %w", w.request, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return fmt.Errorf("%w: %s", ErrFinished, w.request)
	case len(w.queue) >= maxBacklog:
		return fmt.Errorf("%w: %d of %s", ErrBacklog, len(w.queue), w.request)
	}
	w.closed = r.GetTerminal() != nil
	w.queue = append(w.queue, data)
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

// launch sends the first record of the queue; w.mu is held.
func (w *Writer) launch() {
	w.tries++
	err := w.log.conn.StoreAsync(context.Background(), w.subject, w.queue[0], expect(w.last), w.landed)
	if err != nil {
		w.failed(err)
	}
}

// landed is called with the acknowledgement, on the bus's goroutine.
func (w *Writer) landed(seq uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	if err != nil {
		w.failed(err)
		return
	}
	w.stored(seq)
}

// stored goes on behind a record that is in the log; w.mu is held.
func (w *Writer) stored(seq uint64) {
	w.last, w.tries = seq, 0
	w.queue[0] = nil // or the array keeps it
	w.queue = w.queue[1:]
	if len(w.queue) > 0 {
		w.launch()
		return
	}
	w.queue = nil
	w.wake()
	if w.closed {
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

// failed decides what an error of the first record means; w.mu is held.
func (w *Writer) failed(err error) {
	switch {
	case bus.IsWrongSequence(err):
		go w.resolve() // reads from the server, so not on the bus's goroutine
	case errors.Is(err, nats.ErrConnectionClosed):
		w.lose(err) // this process is stopping
	case bus.Transient(err), bus.IsFull(err):
		// The request must not be lost for what passes; a full stream empties
		// as records age.
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

// resolve finds out after a conflict whether our record is stored, and who came between.
func (w *Writer) resolve() {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWithin)
	defer cancel()
	w.mu.Lock()
	data, after := w.queue[0], w.last
	w.mu.Unlock()
	seq, err := w.log.recognise(ctx, w.subject, data, after)
	if errors.Is(err, errConflict) {
		err = w.usurper(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.stored(seq)
	case errors.Is(err, ErrStale), errors.Is(err, ErrFinished), errors.Is(err, ErrUnknown):
		w.lose(err)
	case errors.Is(err, context.DeadlineExceeded):
		w.failed(nats.ErrTimeout) // the append is tried again and conflicts again
	default:
		w.failed(err)
	}
}

// usurper says what another's record means to us.
func (w *Writer) usurper(ctx context.Context) error {
	last, err := w.log.Last(ctx, w.request)
	if err != nil {
		return err
	}
	if last.Record.GetTerminal() != nil {
		return fmt.Errorf("%w: %s", ErrFinished, w.request)
	}
	return fmt.Errorf("%w: %s", ErrStale, w.request)
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
