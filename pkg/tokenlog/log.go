package tokenlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/bus"
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
	// ErrBacklog says that too many records wait for the stream.
	ErrBacklog = errors.New("too many unwritten records")

	errConflict = errors.New("another record came between")
)

// Entry is a record in the log.
type Entry struct {
	Record *pb.Record
	// Seq is the record's sequence in the stream.
	Seq uint64
	// Time is the server's; deadlines are judged by it.
	Time time.Time
}

// Log reads and writes the token logs of one model.
type Log struct {
	conn   *bus.Conn
	names  schemas.Streams
	stream string
}

// New returns the logs of a model; their stream exists.
func New(c *bus.Conn, names schemas.Streams) *Log {
	return &Log{conn: c, names: names, stream: names.Tokens().Name}
}

// Accept opens a request's log. When it was opened before, existing is what it
// was opened with, and seq is where.
func (l *Log) Accept(ctx context.Context, request string, accept *pb.Accept) (seq uint64, existing *pb.Accept, err error) {
	record := &pb.Record{Kind: &pb.Record_Accept{Accept: accept}}
	seq, err = l.put(ctx, request, record, 0)
	if !errors.Is(err, errConflict) {
		return seq, nil, err
	}
	e, err := l.first(ctx, request)
	if err != nil {
		return 0, nil, err
	}
	return e.Seq, e.Record.GetAccept(), nil
}

// Opening is what a request's log was opened with; ErrUnknown if it was not.
func (l *Log) Opening(ctx context.Context, request string) (*pb.Accept, error) {
	e, err := l.first(ctx, request)
	if errors.Is(err, bus.ErrNoMessage) {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, request)
	}
	return e.Record.GetAccept(), err
}

func (l *Log) first(ctx context.Context, request string) (Entry, error) {
	m, err := l.conn.Next(ctx, l.stream, l.names.Token(request), 0)
	if err != nil {
		return Entry{}, fmt.Errorf("reading how %s was opened: %w", request, err)
	}
	e, err := decode(m)
	if err == nil && e.Record.GetAccept() == nil {
		err = fmt.Errorf("log of %s begins with a %T", request, e.Record.Kind)
	}
	return e, err
}

// Last returns a log's newest record, from the stream's leader.
func (l *Log) Last(ctx context.Context, request string) (Entry, error) {
	m, err := l.conn.Last(ctx, l.stream, l.names.Token(request))
	if errors.Is(err, bus.ErrNoMessage) {
		return Entry{}, fmt.Errorf("%w: %s", ErrUnknown, request)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("reading the log of %s: %w", request, err)
	}
	return decode(m)
}

// Read returns all records of a request that were there when it began.
func (l *Log) Read(ctx context.Context, request string) ([]Entry, error) {
	last, err := l.Last(ctx, request)
	if err != nil {
		return nil, err
	}
	if last.Record.GetAccept() != nil {
		return []Entry{last}, nil // the usual claim finds just this
	}
	var all []Entry
	err = l.follow(ctx, request, func(e Entry) bool {
		all = append(all, e)
		return e.Seq < last.Seq
	})
	return all, err
}

func (l *Log) follow(ctx context.Context, request string, fn func(Entry) bool) (err error) {
	followed := l.conn.Follow(ctx, l.stream, l.names.Token(request), 1, func(m bus.Stored) bool {
		var e Entry
		if e, err = decode(m); err != nil {
			return false
		}
		return fn(e)
	})
	return errors.Join(err, followed)
}

// FollowRequest calls fn for a request's records from the first on, then live,
// until fn returns false or ctx ends.
func (l *Log) FollowRequest(ctx context.Context, request string, fn func(Entry) (more bool)) error {
	if _, err := l.Last(ctx, request); err != nil {
		return err
	}
	return l.follow(ctx, request, fn)
}

// FollowShard calls fn for the records of all requests of a shard, from a
// stream sequence on, then live, until ctx ends. What cannot be decoded is
// passed over: it is nobody's token.
func (l *Log) FollowShard(ctx context.Context, shard int, from uint64, fn func(request string, e Entry)) error {
	return l.conn.Follow(ctx, l.stream, l.names.TokenShard(shard), from, func(m bus.Stored) bool {
		if e, err := decode(m); err == nil {
			fn(schemas.LastToken(m.Subject), e)
		}
		return true
	})
}

// Finish ends a request, whoever owns it: its terminal record comes next.
func (l *Log) Finish(ctx context.Context, request string, t *pb.Terminal) (seq uint64, err error) {
	record := &pb.Record{Kind: &pb.Record_Terminal{Terminal: t}}
	for {
		last, err := l.Last(ctx, request)
		if err != nil {
			return 0, err
		}
		if last.Record.GetTerminal() != nil {
			return 0, fmt.Errorf("%w: %s", ErrFinished, request)
		}
		if seq, err = l.put(ctx, request, record, last.Seq); !errors.Is(err, errConflict) {
			return seq, err
		}
	}
}

func decode(m bus.Stored) (Entry, error) {
	r := &pb.Record{}
	if err := proto.Unmarshal(m.Data, r); err != nil {
		return Entry{}, fmt.Errorf("decoding record %d of %s: %w", m.Sequence, m.Subject, err)
	}
	return Entry{Record: r, Seq: m.Sequence, Time: m.Time}, nil
}

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// put appends a record behind the sequence `after` and waits for it; it tries
// until ctx ends. errConflict says that another record came there.
func (l *Log) put(ctx context.Context, request string, r *pb.Record, after uint64) (seq uint64, err error) {
	data, err := proto.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encoding a record of %s: %w", request, err)
	}
	subject := l.names.Token(request)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		seq, err = l.putOnce(ctx, subject, data, after)
		if bus.IsWrongSequence(err) {
			return l.recognise(ctx, subject, data, after)
		}
		if err == nil || !bus.Transient(err) || errors.Is(err, nats.ErrConnectionClosed) {
			return seq, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("appending to the log of %s: %w (%w)", request, ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

func (l *Log) putOnce(ctx context.Context, subject string, data []byte, after uint64) (uint64, error) {
	type result struct {
		seq uint64
		err error
	}
	out := make(chan result, 1)
	err := l.conn.StoreAsync(ctx, subject, data, expect(after), func(seq uint64, err error) { out <- result{seq, err} })
	if err != nil {
		return 0, err
	}
	r := <-out // comes: the bus bounds the wait
	return r.seq, r.err
}

// expect is the header that lets a record only come behind a sequence.
func expect(after uint64) nats.Header {
	return nats.Header{nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(after, 10)}}
}

// recognise tells, after a conflict, whether the record behind `after` is the
// one we sent: its acknowledgement was lost then. The record behind it, and not
// the last one: another owner's may have the same content later.
func (l *Log) recognise(ctx context.Context, subject string, data []byte, after uint64) (uint64, error) {
	next, err := l.conn.Next(ctx, l.stream, subject, after+1)
	if errors.Is(err, bus.ErrNoMessage) {
		return 0, errConflict // what we built upon is gone
	}
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(next.Data, data) {
		return 0, errConflict
	}
	return next.Sequence, nil
}
