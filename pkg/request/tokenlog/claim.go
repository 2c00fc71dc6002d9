package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxFruitless is how many owners in a row may make nothing of a request. What
// ends them all would end the next ones, too.
const maxFruitless = 8

// ErrFruitless says that a request was taken up too often without any progress.
var ErrFruitless = errors.New("the request was taken up again and again without progress")

// Claim makes this replica the one who writes a request's log, and returns what
// it holds, with the claim as the newest entry. opened is what the log must have
// been opened with. It tries until ctx ends. A log that has ended gives
// ErrFinished; one that nobody may go on with ErrUnknown, ErrNotWhole,
// ErrCrashed, ErrFruitless or ErrForeign.
func (l *Log) Claim(ctx context.Context, request string, opened *pb.Accept, s WriterSettings) (*Writer, []Entry, error) {
	for {
		// All of it, each time: a claim whose epoch is in the log already would
		// be taken for one of ours whose acknowledgement was lost.
		h, err := l.read(ctx, request)
		if err != nil {
			return nil, nil, err
		}
		if err := h.claimable(opened); err != nil {
			return nil, nil, fmt.Errorf("%w (%s)", err, request)
		}
		record := &pb.Record{Epoch: h.chain.epoch + 1, Kind: &pb.Record_Claim{Claim: &pb.Claim{}}}
		seq, err := l.put(ctx, request, record, h.tail)
		if errors.Is(err, errConflict) {
			continue // whoever wrote meanwhile: read it, too
		}
		if err != nil {
			return nil, nil, fmt.Errorf("claiming the log of %s: %w", request, err)
		}
		return l.claimed(ctx, request, record, seq, h, s)
	}
}

func (h *history) claimable(opened *pb.Accept) error {
	c := &h.chain
	switch {
	case c.accept != nil && !SameOpening(c.accept, opened):
		return ErrForeign
	case c.end != nil:
		return ErrFinished
	case c.broken != nil:
		return fmt.Errorf("%w: %w", ErrNotWhole, c.broken)
	case c.accept == nil:
		return ErrUnknown // nothing but noise
	case c.Crashed():
		return fmt.Errorf("%w: %d of them", ErrCrashed, c.trials)
	case c.claims >= maxFruitless:
		return fmt.Errorf("%w: %d times", ErrFruitless, c.claims)
	}
	return nil
}

// claimed reads the claim for its time, which deadlines are judged by.
func (l *Log) claimed(ctx context.Context, request string, record *pb.Record, seq uint64, h *history, s WriterSettings) (*Writer, []Entry, error) {
	stored, err := l.conn.Next(ctx, l.stream, l.names.Subjects.Token(request), seq)
	if err != nil || stored.Sequence != seq {
		return nil, nil, fmt.Errorf("reading the claim of %s: %w", request, errors.Join(err, missing(stored, seq)))
	}
	if _, err := h.chain.Take(record); err != nil {
		return nil, nil, fmt.Errorf("claiming the log of %s: %w", request, err)
	}
	history := slices.Concat(h.entries, []Entry{{Record: record, Seq: seq, Time: stored.Time}})
	w := newWriter(l, request, seq, h.chain, s)
	w.keepHistory(history)
	return w, history, nil
}

func missing(m bus.Stored, seq uint64) error {
	if m.Sequence == seq {
		return nil
	}
	return fmt.Errorf("record %d is gone", seq)
}
