package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// feed gives those who follow shards their messages, all out of one consumer of the
// log. With a consumer for each shard the server would wake each of them in every step,
// and each would look at all messages for its own.
//
//	a reader joins or leaves ─▶ the round ends ─▶ the next one, of who is there now,
//	                                              from the first message that one lacks
//
// A reader that is too slow for the others is dismissed with errSlow: it reads what it
// lacks alone, and joins again.
type feed struct {
	conn   bus.LogStore
	stream string
	names  schemas.Subjects

	mu      sync.Mutex
	readers map[int]*reader // by shard
	running bool            // rounds follow one another until no reader is left
	round   *round          // the one under way; nil: none is
}

// reader is one shard's part in a feed.
type reader struct {
	shard int
	// place is up to where it has its messages. It changes between rounds only.
	place bus.Place
	box   *mailbox
	err   chan error // why it gets no more
}

// errSlow says that more waited for a reader than may.
var errSlow = errors.New("the reader is slower than the feed")

func newFeed(c bus.LogStore, names schemas.Streams) *feed {
	return &feed{conn: c, stream: names.Tokens().Name, names: names.Subjects, readers: map[int]*reader{}}
}

// follow calls take for a shard's messages from behind a place on, on the caller's
// goroutine, until ctx ends, the stream is made anew, or take is too slow for the
// others. It returns the place of the last message that it passed on.
func (f *feed) follow(ctx context.Context, shard int, after bus.Place, take func(bus.Stored)) (bus.Place, error) {
	r := &reader{shard: shard, place: after, box: newMailbox(), err: make(chan error, 1)}
	if err := f.join(r); err != nil { //nolint:contextcheck // the feed outlives each of its readers
		return after, err
	}
	defer f.leave(r)
	for taken := []bus.Stored(nil); ; {
		var end error
		select {
		case <-r.box.filled:
		case end = <-r.err: // what came before that is in the box
		case <-ctx.Done():
			return after, fmt.Errorf("following shard %d: %w", shard, ctx.Err())
		}
		taken = r.box.swap(taken)
		after = f.hand(ctx, after, taken, take)
		if end != nil {
			return after, end
		}
	}
}

// hand passes messages on, and returns the place of the last one. One that makes take
// panic is passed over.
func (f *feed) hand(ctx context.Context, after bus.Place, messages []bus.Stored, take func(bus.Stored)) bus.Place {
	for _, m := range messages {
		if ctx.Err() != nil {
			break
		}
		_ = f.conn.Try(m.Subject, func() error { take(m); return nil }) // counted and logged there
		after = after.Behind(m)
	}
	return after
}

func (f *feed) join(r *reader) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers[r.shard] != nil {
		return fmt.Errorf("shard %d is followed already", r.shard)
	}
	f.readers[r.shard] = r
	if f.round != nil {
		f.round.stop()
	}
	if !f.running {
		f.running = true
		go f.run()
	}
	return nil
}

// leave ends a reader's part, and waits until nothing is under way for it.
func (f *feed) leave(r *reader) {
	f.mu.Lock()
	if f.readers[r.shard] == r {
		delete(f.readers, r.shard)
	}
	round := f.round
	f.mu.Unlock()
	if round != nil {
		round.stop()
		<-round.over
	}
}

func (f *feed) run() {
	for r := f.begin(); r != nil; r = f.begin() {
		err := f.conn.Follow(r.ctx, f.stream, r.subjects(f.names), r.from, func(m bus.Stored) bool { return f.give(r, m) })
		f.end(r, err)
	}
}

// begin returns the next round; nil if nobody is left. It is for those who have read the same
// stream, from behind what each of them has; the others hear that theirs is gone.
func (f *feed) begin() *round {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &round{readers: map[string]*reader{}, from: bus.Place{Incarnation: f.incarnation(), Sequence: math.MaxUint64}, over: make(chan struct{})}
	for shard, reader := range f.readers {
		if known := reader.place.Incarnation; known != 0 && known != r.from.Incarnation {
			f.dismiss(reader, fmt.Errorf("following shard %d: %w", shard, bus.ErrReplaced))
			continue
		}
		r.readers[strconv.Itoa(shard)] = reader
		if reader.place.Sequence < r.from.Sequence {
			r.from.Sequence, r.from.Time = reader.place.Sequence, reader.place.Time
		}
	}
	if f.running = len(r.readers) > 0; !f.running {
		return nil
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	f.round = r
	return r
}

// incarnation is that of the stream which the readers have read; 0: none has read any.
// Where they have read different ones, one of which is gone, the server is asked which is
// there: an incarnation is a time of some server's clock, so that it may be smaller than
// that of the stream before. f.mu is held, but not while the server is asked: its answer
// says nothing to who has joined meanwhile with what was made since. So it is asked again
// until it is known, for the same incarnations, or those who read another one have left.
func (f *feed) incarnation() uint64 {
	for pauses := pause.Between(firstPause, lastPause); ; {
		known := incarnations(f.readers)
		switch len(known) {
		case 0:
			return 0
		case 1:
			return known[0]
		}
		f.mu.Unlock()
		state, err := f.conn.State(context.Background(), f.stream)
		f.mu.Lock()
		if err == nil && slices.Equal(known, incarnations(f.readers)) {
			return state.Incarnation
		}
		f.mu.Unlock()
		_ = pauses.Wait(context.Background()) // nothing ends it
		f.mu.Lock()
	}
}

// Pauses between two questions for the stream that is there.
const firstPause, lastPause = 50 * time.Millisecond, 500 * time.Millisecond

// incarnations returns the different ones of which readers have read, in order.
func incarnations(readers map[int]*reader) (known []uint64) {
	for _, r := range readers {
		if n := r.place.Incarnation; n != 0 && !slices.Contains(known, n) {
			known = append(known, n)
		}
	}
	slices.Sort(known)
	return known
}

// end notes up to where a round's readers have their messages. When nothing but its end
// could have ended it, they hear why: the stream is another one, or the connection closed.
func (f *feed) end(r *round, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := err != nil && r.ctx.Err() == nil
	r.stop()
	for _, reader := range r.readers {
		if r.read.Sequence > reader.place.Sequence {
			reader.place = r.read
		}
		if failed {
			f.dismiss(reader, err)
		}
	}
	f.round = nil
	close(r.over)
}

// give puts a message into its reader's mailbox, or dismisses a reader for which too
// many wait; false when the round has ended.
func (f *feed) give(r *round, m bus.Stored) (more bool) {
	token := shardToken(m.Subject)
	reader := r.readers[token]
	if reader != nil {
		err := reader.place.Overtaken(f.stream, m)
		if err == nil && m.Sequence > reader.place.Sequence && !reader.box.put(m) {
			err = errSlow
		}
		if err != nil {
			f.mu.Lock()
			delete(r.readers, token)
			f.dismiss(reader, fmt.Errorf("following shard %s: %w", token, err))
			f.mu.Unlock()
		}
	}
	r.read = r.read.Behind(m)
	return r.ctx.Err() == nil
}

// dismiss ends a reader's part; f.mu is held.
func (f *feed) dismiss(r *reader, err error) {
	if f.readers[r.shard] == r {
		delete(f.readers, r.shard)
	}
	select {
	case r.err <- err:
	default: // it knows
	}
}

// round is what a feed reads through one consumer, for the same readers throughout,
// less those that are too slow.
type round struct {
	readers map[string]*reader // by their shard's token in subjects
	from    bus.Place
	read    bus.Place // the last message that was given; zero: none

	ctx  context.Context
	stop context.CancelFunc
	over chan struct{} // closed when nothing of it is under way
}

// subjects returns those of the readers' shards; of all shards the stream's own one, which
// spares the server a look at each message's.
func (r *round) subjects(names schemas.Subjects) (out []string) {
	if len(r.readers) == schemas.LogShards {
		return []string{names.AnyToken()}
	}
	for _, reader := range r.readers {
		out = append(out, names.TokenShard(reader.shard))
	}
	slices.Sort(out)
	return out
}

// shardToken returns the shard in the subject of a record.
func shardToken(subject string) string {
	rest := subject[:max(0, strings.LastIndexByte(subject, '.'))]
	return schemas.LastToken(rest)
}
