package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Finish ends a request, whoever owns it: its terminal record comes next.
func (l *Log) Finish(ctx context.Context, request string, t *pb.Terminal) error {
	for {
		h, err := l.readAs(ctx, request, l.s.Rules, math.MaxUint64, maxNoise)
		if err != nil {
			return err
		}
		if err := l.finish(ctx, request, h, t); !errors.Is(err, errConflict) {
			return err
		}
	}
}

// End ends a request whose log may be gone, in whole or in its beginning: what
// it was opened with is written again before its end, so that its producer is
// told.
func (l *Log) End(ctx context.Context, request string, opened *pb.Accept, t *pb.Terminal) error {
	return l.endIf(ctx, request, opened, t, func(*history) error { return nil })
}

// endIf ends a request unless check has something against it.
func (l *Log) endIf(ctx context.Context, request string, opened *pb.Accept, t *pb.Terminal, check func(*history) error) error {
	for {
		h, err := l.read(ctx, request)
		if errors.Is(err, ErrUnknown) {
			h, err = &history{chain: l.NewChain()}, nil
		}
		if err == nil {
			err = check(h)
		}
		if err == nil {
			err = l.reopen(ctx, request, h, opened)
		}
		if err == nil {
			err = l.finish(ctx, request, h, t)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
	}
}

// reopen writes the acceptance of a log that has lost it.
func (l *Log) reopen(ctx context.Context, request string, h *history, opened *pb.Accept) error {
	switch {
	case opened == nil:
		return nil // nobody knows whom to tell
	case h.chain.accept != nil && !SameOpening(h.chain.accept, opened):
		return fmt.Errorf("%w: %s", ErrForeign, request)
	case h.chain.accept != nil || h.chain.end != nil:
		return nil
	}
	again := proto.CloneOf(opened)
	again.Lost = true
	seq, err := l.put(ctx, request, &pb.Record{Kind: &pb.Record_Accept{Accept: again}}, h.tail)
	h.tail = seq
	return err
}

func (l *Log) finish(ctx context.Context, request string, h *history, t *pb.Terminal) error {
	if h.chain.end != nil {
		return fmt.Errorf("%w: %s", ErrFinished, request)
	}
	_, err := l.put(ctx, request, &pb.Record{Kind: &pb.Record_Terminal{Terminal: t}}, h.tail)
	return err
}
