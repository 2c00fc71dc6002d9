package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// writableShare of the stream's bound is where tokens and scores stop. The
	// rest is for the small records that end requests, hand them over and pack
	// them, which give room back.
	writableShare = 0.95
	// storedRoom is a little more than what the server stores with a record's subject and data.
	storedRoom = 128

	// A look at the stream comes after a while, or soon when that may change something.
	lookEvery = time.Second
	lookSoon  = 50 * time.Millisecond
	// nearShare of the writable bytes is where looks are frequent.
	nearShare = 0.8
)

// ErrNoRoom says that the stream of the token logs is full.
var ErrNoRoom = errors.New("the token log is full")

// room says how much this replica may write to the stream: its part of what was
// free at the last look. Nobody tells what others have written since.
type room struct {
	mu     sync.Mutex
	stream string
	bytes  int64
	bound  int64 // 0: none, or not known
	sharer int64 // replicas that write
	flying int64 // bytes of records without an acknowledgement
	stored int64 // and of those that had one after the last look began
	shut   bool  // the server refused a record since then
	soon   chan struct{}
}

// take reserves room for a record about to be sent.
func (r *room) take(size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bound > 0 {
		left := Writable(r.bound) - r.bytes
		mine := (r.flying + r.stored + size) * r.sharer
		if mine > left/2 {
			r.lookSoon()
		}
		if mine > left || r.shut {
			return r.full()
		}
	}
	r.flying += size
	return nil
}

// force counts a record that is sent whatever there is.
func (r *room) force(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying += size
}

// landed counts an answer to a record; without one it may be stored.
func (r *room) landed(size int64, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying -= size
	if !refused {
		r.stored += size
	}
}

// refused notes that the server had no room, whatever was thought before: what
// is left is for ends until the next look.
func (r *room) refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookSoon()
	r.shut = true
	return r.full()
}

// looked takes in what the stream holds; before is what was stored at that look's begin.
func (r *room) looked(bytes, bound, sharer, before int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes, r.bound, r.sharer = bytes, max(0, bound), max(1, sharer)
	r.stored -= before
	r.shut = false
}

func (r *room) storedSoFar() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored
}

func (r *room) near() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bound > 0 && float64(r.bytes) > nearShare*float64(Writable(r.bound))
}

// Writable returns how much of a stream's bound tokens and scores may use.
func Writable(bound int64) int64 { return int64(writableShare * float64(bound)) }

// StoredSize returns what a record of so many bytes takes in the stream, or little less.
func StoredSize(subject string, record int64) int64 { return record + int64(len(subject)) + storedRoom }

func (r *room) full() error {
	return fmt.Errorf("%w: stream %s holds %d of its %d bytes, and the rest is for what ends requests (--log-bytes, --log-age)",
		ErrNoRoom, r.stream, r.bytes, r.bound)
}

func (r *room) lookSoon() { pause.Wake(r.soon) }

// WatchRoom looks how full the stream is, until ctx ends, so that this replica's
// writers stop well before its bound; sharers is how many replicas write.
// Without it they stop at what the server refuses.
func (l *Log) WatchRoom(ctx context.Context, sharers func() int) {
	for {
		l.look(ctx, int64(sharers()))
		if !l.pause(ctx) {
			return
		}
	}
}

// look asks once; who asks in vain goes on with what is known.
func (l *Log) look(ctx context.Context, sharers int64) {
	before := l.room.storedSoFar()
	if state, err := l.conn.State(ctx, l.stream); err == nil {
		l.room.looked(int64(state.Bytes), state.MaxBytes, sharers, before)
	}
}

// pause waits until the next look is due; false: ctx ended.
func (l *Log) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(lookSoon):
	}
	if l.room.near() {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.room.soon:
	case <-time.After(lookEvery - lookSoon):
	}
	return true
}

// needsRoom reports whether a record is one that stops before the stream's bound.
func needsRoom(r *pb.Record) bool { return r.GetToken() != nil || r.GetScore() != nil }

const (
	// roomWithin is how long a request waits for room in its log: what was
	// delivered is packed, and what is old goes, meanwhile.
	roomWithin = 10 * time.Second
	roomRetry  = 100 * time.Millisecond
)

// await waits for room, or ends the request when that took too long: what it
// holds keeps others from getting on. w.mu is held.
func (w *Writer) await(why error) {
	if w.waits.IsZero() {
		w.waits = time.Now()
	}
	if w.settings.Cut == nil || !needsRoom(w.queue[0].record) || time.Since(w.waits) < w.log.s.RoomWithin {
		time.AfterFunc(roomRetry, w.relaunch)
		return
	}
	w.cut(why)
}

// cut puts an end in place of what could not be written; w.mu is held.
func (w *Writer) cut(why error) {
	end := &pb.Record{Epoch: w.epoch, Kind: &pb.Record_Terminal{Terminal: w.settings.Cut(w, why)}}
	data, err := w.log.encode(w.subject, end)
	w.queued = w.stored
	if err == nil {
		_, err = w.queued.Take(end)
	}
	if err != nil {
		w.lose(fmt.Errorf("ending %s, whose log has no room: %w", w.request, err))
		return
	}
	w.queue, w.tries, w.trial = []unwritten{{end, data}}, 0, false
	w.full.Store(false)
	w.launch()
}
