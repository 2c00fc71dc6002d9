package tokenlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Claim makes owner the one who writes a request's log, and returns what it
// holds, with the claim as the newest entry. It tries until ctx ends. A log
// that has ended gives ErrFinished.
func (l *Log) Claim(ctx context.Context, request, owner string, s WriterSettings) (*Writer, []Entry, error) {
	for {
		history, err := l.Read(ctx, request)
		if err != nil {
			return nil, nil, err
		}
		last := history[len(history)-1]
		if last.Record.GetTerminal() != nil {
			return nil, nil, fmt.Errorf("%w: %s", ErrFinished, request)
		}
		record := &pb.Record{Kind: &pb.Record_Claim{Claim: &pb.Claim{Owner: owner, Epoch: lastEpoch(history) + 1}}}
		seq, err := l.put(ctx, request, record, last.Seq)
		if errors.Is(err, errConflict) {
			continue // whoever wrote meanwhile: read it, too
		}
		if err != nil {
			return nil, nil, fmt.Errorf("claiming the log of %s: %w", request, err)
		}
		return l.claimed(ctx, request, record, seq, history, s)
	}
}

// claimed reads the claim for its time, which deadlines are judged by.
func (l *Log) claimed(ctx context.Context, request string, record *pb.Record, seq uint64, history []Entry, s WriterSettings) (*Writer, []Entry, error) {
	stored, err := l.conn.Next(ctx, l.stream, l.names.Token(request), seq)
	if err != nil || stored.Sequence != seq {
		return nil, nil, fmt.Errorf("reading the claim of %s: %w", request, errors.Join(err, missing(stored, seq)))
	}
	w := newWriter(l, request, record.GetClaim().GetEpoch(), seq, s)
	return w, append(history, Entry{Record: record, Seq: seq, Time: stored.Time}), nil
}

func missing(m bus.Stored, seq uint64) error {
	if m.Sequence == seq {
		return nil
	}
	return fmt.Errorf("record %d is gone", seq)
}

func lastEpoch(history []Entry) uint64 {
	for i := len(history) - 1; i >= 0; i-- {
		if c := history[i].Record.GetClaim(); c != nil {
			return c.GetEpoch()
		}
	}
	return 0
}
