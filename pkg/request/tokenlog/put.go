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

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// encode completes a record and checks that the server will take it.
func (l *Log) encode(subject string, r *pb.Record) ([]byte, error) {
	r.Format = schemas.RecordFormat
	if r.GetToken() == nil && r.GetScore() == nil {
		r.Writer = l.s.Writer
	}
	data, err := proto.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding a record for %s: %w", subject, err)
	}
	if size, limit := int64(len(data)), l.MaxRecord(); size > limit {
		return nil, &bus.TooLargeError{Subject: subject, Size: size, Limit: limit}
	}
	return data, nil
}

// headerRoom is more than a record's headers need.
const headerRoom = 512

// MaxRecord returns the most bytes of a record that the server takes.
func (l *Log) MaxRecord() int64 { return l.conn.MaxPayload() - headerRoom }

// put appends a record behind the sequence `after` and waits for it; it tries
// until ctx ends. errConflict says that another message came there.
func (l *Log) put(ctx context.Context, request string, r *pb.Record, after uint64) (seq uint64, err error) {
	subject := l.names.Subjects.Token(request)
	data, err := l.encode(subject, r)
	if err != nil {
		return 0, err
	}
	seq, err = l.conn.StoreBytes(ctx, subject, data, header(r, after))
	if bus.IsWrongSequence(err) {
		return l.recognise(ctx, subject, data, after)
	}
	if err != nil {
		return 0, fmt.Errorf("appending to the log of %s: %w", request, err)
	}
	return seq, nil
}

// header lets a record only come behind a sequence; a packed log, and an acceptance that begins a log
// anew, take the place of all before them.
func header(r *pb.Record, after uint64) nats.Header {
	h := expect(after)
	if r.GetPacked() != nil || r.GetAccept() != nil && r.Epoch > 0 { // Restart
		h["Nats-Rollup"] = []string{"sub"}
	}
	return h
}

func expect(after uint64) nats.Header {
	return nats.Header{nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(after, 10)}}
}

// lookAgain is the pause after a conflict with nothing.
const lookAgain = 50 * time.Millisecond

// recognise tells, after a conflict, whether the record behind `after` is the
// one we sent: its acknowledgement was lost then. The record behind it, and not
// the last one: another owner's may have the same content later.
func (l *Log) recognise(ctx context.Context, subject string, data []byte, after uint64) (uint64, error) {
	next, err := l.conn.Next(ctx, l.stream, subject, after+1)
	if errors.Is(err, bus.ErrNoMessage) {
		// What we built upon is gone; or, in a cluster, an earlier attempt is on
		// its way, and the caller looks again.
		_ = pause.For(ctx, lookAgain)
		return 0, errConflict
	}
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(next.Data, data) {
		return 0, errConflict
	}
	return next.Sequence, nil
}
