package tokenlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var (
	// ErrStale says that another owner has claimed the log.
	ErrStale = errors.New("another replica has claimed the request")
	// ErrFinished says that the log has its terminal record.
	ErrFinished = errors.New("the request has ended")
	// ErrUnknown says that there is no such log, or not any more.
	ErrUnknown = errors.New("unknown request")
	// ErrNotWhole says that records of the log are gone, so that nobody may go on with it.
	ErrNotWhole = errors.New("the request's token log is not whole")
	// ErrNoisy says that a log has more messages that are no records than are read for
	// whoever wants to look at it.
	ErrNoisy = errors.New("the log holds too much that is no record of it")
	// ErrForeign says that the log is of another request that had the same id.
	ErrForeign = errors.New("the id belongs to another request")

	errConflict = errors.New("another record came between")
)

// Settings are what code sets.
type Settings struct {
	Rules Rules
	// Writer names this replica in what it writes.
	Writer string
	// Passed is told of each message that a reader passed over; first says
	// whether it is the reader's first one in that log. nil: nobody is told.
	Passed func(request string, err error, first bool)
	// RoomWithin is how long a request waits for room in its log; 0: the usual time.
	RoomWithin time.Duration
}

// Entry is a record in the log.
type Entry struct {
	Record *pb.Record
	// Seq is the record's sequence in the stream.
	Seq uint64
	// Incarnation is the stream's, for who follows it.
	Incarnation uint64
	// Packed says that the record was unfolded: it has the sequence of all others.
	Packed bool
	// Size is what its message takes in the stream; of several that one has, the first
	// has it.
	Size int64
	// Time is the server's; deadlines are judged by it.
	Time time.Time
}

// Log reads and writes the token logs of one model.
type Log struct {
	conn   bus.LogStore
	names  schemas.Streams
	stream string
	room   room
	s      Settings

	reads, follows places
	feed           *feed
}

// New returns the logs of a model; their stream exists.
func New(c bus.LogStore, names schemas.Streams, s Settings) *Log {
	if s.Passed == nil {
		s.Passed = func(string, error, bool) {}
	}
	s.RoomWithin = cmp.Or(s.RoomWithin, roomWithin)
	stream := names.Tokens().Name
	return &Log{
		conn: c, names: names, stream: stream, s: s, room: room{stream: stream, soon: make(chan struct{}, 1)},
		reads: newPlaces(readsAtOnce), follows: newPlaces(followsAtOnce), feed: newFeed(c, names),
	}
}

// NewChain returns the chain of a log that is read from its beginning.
func (l *Log) NewChain() Chain { return NewChain(l.s.Rules) }

// Accept opens a request's log. When it was opened before, existing is what it
// was opened with; when that is gone and later records are not, the error is
// ErrNotWhole, and when replicas of another kind have opened it, a *KindError.
func (l *Log) Accept(ctx context.Context, request string, accept *pb.Accept) (existing *pb.Accept, err error) {
	return l.accept(ctx, request, accept, func(h *history) error { return h.chain.foreigners(request) })
}

// AcceptAnew is Accept of a request which those are not here to finish who have
// accepted it, if they are of another kind.
func (l *Log) AcceptAnew(ctx context.Context, request string, accept *pb.Accept) (existing *pb.Accept, err error) {
	return l.accept(ctx, request, accept, func(*history) error { return nil })
}

// accept opens a log unless check has something against what lies there.
func (l *Log) accept(ctx context.Context, request string, accept *pb.Accept, check func(*history) error) (existing *pb.Accept, err error) {
	record := &pb.Record{Kind: &pb.Record_Accept{Accept: accept}}
	for after := uint64(0); ; {
		_, err = l.put(ctx, request, record, after)
		if !errors.Is(err, errConflict) {
			return nil, err
		}
		if existing, err := l.first(ctx, request); existing != nil || err != nil {
			return existing, err
		}
		h, err := l.readAs(ctx, request, l.s.Rules, math.MaxUint64, maxNoise)
		switch {
		case errors.Is(err, ErrUnknown):
			after = 0 // it went between the two looks
			continue
		case err != nil:
			return nil, err
		case h.chain.accept != nil:
			return h.chain.accept, nil
		}
		if err := check(h); err != nil {
			return nil, err
		}
		if h.chain.broken != nil || h.chain.end != nil {
			return nil, fmt.Errorf("%w: %s has no acceptance", ErrNotWhole, request)
		}
		after = h.tail // nothing but noise
	}
}

// first returns what a log's first message says that it was opened with, as it does unless there
// is noise before; nil: it does not say.
func (l *Log) first(ctx context.Context, request string) (*pb.Accept, error) {
	m, err := l.conn.Next(ctx, l.stream, l.names.Subjects.Token(request), 1)
	if errors.Is(err, bus.ErrNoMessage) {
		return nil, nil //nolint:nilnil // nothing says it
	}
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", request, err)
	}
	chain := l.NewChain()
	if e, err := decode(m); err == nil {
		_, _ = chain.Take(e.Record) // what it does not take has opened nothing
	}
	return chain.accept, nil
}

// First returns what a log's first message says that it was opened with; ErrUnknown where it
// does not say so. It looks at nothing else.
func (l *Log) First(ctx context.Context, request string) (*pb.Accept, error) {
	opened, err := l.first(ctx, request)
	if opened == nil && err == nil {
		err = fmt.Errorf("%w: %s", ErrUnknown, request)
	}
	return opened, err
}

// Opening returns what a request's log was opened with; ErrUnknown if it was not.
func (l *Log) Opening(ctx context.Context, request string) (*pb.Accept, error) {
	if opened, err := l.first(ctx, request); opened != nil || err != nil {
		return opened, err
	}
	h, err := l.readAs(ctx, request, l.s.Rules, math.MaxUint64, maxNoise)
	if err != nil {
		return nil, err
	}
	if h.chain.accept == nil {
		return nil, fmt.Errorf("%w: %s has no acceptance", ErrUnknown, request)
	}
	return h.chain.accept, nil
}

// State is that of the stream of all logs.
func (l *Log) State(ctx context.Context) (bus.StreamState, error) { return l.conn.State(ctx, l.stream) }

// Last returns the sequence of a log's newest message, whatever that is.
func (l *Log) Last(ctx context.Context, request string) (seq uint64, err error) {
	m, err := l.last(ctx, request)
	return m.Sequence, err
}

// Begun reports whether a request's log has more than its acceptance: somebody had it.
func (l *Log) Begun(ctx context.Context, request string) (bool, error) {
	m, err := l.last(ctx, request)
	if errors.Is(err, ErrUnknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e, err := decode(m)
	return err != nil || e.Record.GetAccept() == nil, nil //nolint:nilerr // what cannot be read is no acceptance
}

// last returns a log's newest message, from the stream's leader.
func (l *Log) last(ctx context.Context, request string) (bus.Stored, error) {
	m, err := l.conn.Last(ctx, l.stream, l.names.Subjects.Token(request))
	if errors.Is(err, bus.ErrNoMessage) {
		return m, fmt.Errorf("%w: %s", ErrUnknown, request)
	}
	if err != nil {
		return m, fmt.Errorf("reading the log of %s: %w", request, err)
	}
	return m, nil
}

// history is a log as far as it was read.
type history struct {
	entries []Entry // those that follow
	chain   Chain
	tail    uint64 // sequence of the newest message, noise or not
	noise   int    // messages that are none
}

// maxNoise bounds what is read of messages that are no records by who looks at a log
// because somebody asked for it. Who goes on with a request reads all of them.
const maxNoise = 4096

// noisy is an error when there is more noise than so many messages; 0: any number may be.
func noisy(noise, most int, request string) error {
	if most > 0 && noise > most {
		return fmt.Errorf("%w: more than %d messages in that of %s", ErrNoisy, most, request)
	}
	return nil
}

// Read returns the records of a request that lie before a message, and the chain of
// all that does.
func (l *Log) Read(ctx context.Context, request string, before uint64) ([]Entry, Chain, error) {
	h, err := l.readAs(ctx, request, l.s.Rules, before, 0)
	if err != nil {
		return nil, Chain{}, err
	}
	return h.entries, h.chain, nil
}

// readWithin bounds the reading of one log: its records may go meanwhile.
const readWithin = 30 * time.Second

func (l *Log) read(ctx context.Context, request string) (*history, error) {
	return l.readAs(ctx, request, l.s.Rules, math.MaxUint64, 0)
}

// Rejoin returns the chain of a log that was followed before records of it were lost, as far as it lies before a message.
func (l *Log) Rejoin(ctx context.Context, request string, known Chain, before uint64) (Chain, int64, error) {
	h, err := l.read(ctx, request)
	chain, size := known.Again(), int64(0)
	if errors.Is(err, ErrUnknown) {
		return chain, 0, nil
	}
	if err != nil {
		return known, 0, err
	}
	for _, e := range h.entries {
		if e.Seq < before {
			_, _ = chain.Take(e.Record) // it was taken when it was read
			size += e.Size
		}
	}
	return chain, size, nil
}

// readAs reads by somebody's rules what lies before a message, with so much noise at most.
func (l *Log) readAs(ctx context.Context, request string, rules Rules, before uint64, noise int) (*history, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	last, err := l.last(ctx, request)
	if err != nil {
		return nil, err
	}
	h := &history{chain: NewChain(rules)}
	first, err := l.conn.Next(ctx, l.stream, l.names.Subjects.Token(request), 1)
	switch {
	case err == nil && first.Sequence >= before:
		return h, nil
	case err == nil && first.Sequence == last.Sequence:
		l.take(request, h, last) // the usual claim finds just its acceptance
		return h, nil
	}
	leave, err := l.reads.enter(ctx, first)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", request, err)
	}
	defer leave()
	err = l.conn.Follow(ctx, l.stream, []string{l.names.Subjects.Token(request)}, bus.Place{}, func(m bus.Stored) bool {
		if m.Sequence < before {
			l.take(request, h, m)
		}
		return m.Sequence < min(before, last.Sequence) && noisy(h.noise, noise, request) == nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", request, err)
	}
	return h, noisy(h.noise, noise, request)
}

func (l *Log) take(request string, h *history, m bus.Stored) {
	h.tail = m.Sequence
	l.each(request, &h.chain, &h.noise, m, func(e Entry) bool {
		h.entries = append(h.entries, e)
		return true
	})
}

// each calls fn for the records that a message adds to a log, and counts it
// when it is noise.
func (l *Log) each(request string, c *Chain, noise *int, m bus.Stored, fn func(Entry) bool) (more bool) {
	e, err := decode(m)
	var records []*pb.Record
	if err == nil {
		records, err = c.Take(e.Record)
	}
	if err != nil {
		passed := *noise > 0
		l.Pass(request, e, err, &passed)
		*noise++
	}
	for _, r := range records {
		if !fn(Entry{Record: r, Seq: m.Sequence, Time: m.Time, Packed: r != e.Record, Size: e.Size}) {
			return false
		}
		e.Size = 0 // counted, of a message that has several
	}
	return true
}

// Pass says that a reader passes over an entry; passed is its own, of one log.
func (l *Log) Pass(request string, e Entry, err error, passed *bool) {
	l.s.Passed(request, fmt.Errorf("record %d of %s: %w", e.Seq, request, err), !*passed)
	*passed = true
}

// FollowRequest calls fn for a request's records from the first on, then live,
// until fn returns false or ctx ends. Of a log that nobody can read the error is a
// *KindError or ErrNotWhole.
func (l *Log) FollowRequest(ctx context.Context, request string, fn func(Entry) (more bool)) error {
	last, err := l.last(ctx, request)
	if err != nil {
		return err
	}
	first, err := l.conn.Next(ctx, l.stream, l.names.Subjects.Token(request), 1)
	if err != nil && !errors.Is(err, bus.ErrNoMessage) {
		return fmt.Errorf("following the log of %s: %w", request, err)
	}
	if l.whole(request, first, last, fn) {
		return nil
	}
	caughtUp, err := l.follows.enter(ctx, first)
	if err != nil {
		return fmt.Errorf("following the log of %s: %w", request, err)
	}
	defer caughtUp()
	defer time.AfterFunc(readWithin, caughtUp).Stop() // its last record may be gone
	chain, noise := l.NewChain(), 0
	for {
		var unreadable error
		err := l.conn.Follow(ctx, l.stream, []string{l.names.Subjects.Token(request)}, bus.Place{}, func(m bus.Stored) bool {
			more := l.each(request, &chain, &noise, m, fn)
			if unreadable = noisy(noise, maxNoise, request); m.Sequence < last.Sequence || unreadable != nil {
				return more && unreadable == nil
			}
			caughtUp()
			unreadable = chain.unreadable(request)
			return more && unreadable == nil
		})
		if errors.Is(unreadable, ErrNotWhole) && l.grown(ctx, request, &last) {
			continue // it was being packed
		}
		if !errors.Is(err, bus.ErrReplaced) {
			return cmp.Or(unreadable, err)
		}
		chain = chain.Again() // the stream is a new one, or has lost its end
	}
}

// whole passes on a log that has ended and is packed, without a consumer for it.
func (l *Log) whole(request string, first, last bus.Stored, fn func(Entry) (more bool)) (done bool) {
	e, err := decode(last)
	chain := l.NewChain()
	if err != nil || first.Sequence != last.Sequence || e.Record.GetPacked() == nil {
		return false // who follows it finds out
	}
	noise := 0
	l.each(request, &chain, &noise, last, fn)
	return noise == 0
}

// grown reports whether a log has a newer message than the last one that was known.
func (l *Log) grown(ctx context.Context, request string, last *bus.Stored) bool {
	newest, err := l.last(ctx, request)
	if err != nil || newest.Sequence <= last.Sequence {
		return false
	}
	*last = newest
	return true
}

func decode(m bus.Stored) (Entry, error) {
	e := Entry{Record: &pb.Record{}, Seq: m.Sequence, Incarnation: m.Incarnation, Time: m.Time, Size: StoredSize(m.Subject, int64(len(m.Data)))}
	if err := proto.Unmarshal(m.Data, e.Record); err != nil {
		return e, fmt.Errorf("%w: %w", ErrNoise, err)
	}
	if e.Record.Format == schemas.RecordFormat && e.Record.Kind != nil {
		return e, nil
	}
	return e, fmt.Errorf("%w: %d bytes of another kind or version", ErrNoise, len(m.Data))
}
