package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxLoose bounds the requests that one look at a shard returns.
const maxLoose = 100_000

// Loose returns the requests of a shard with messages behind a place that nobody has packed
// since: their ends may not have been delivered. A place in a stream that is no more, or in no
// known one, is that of none of its messages.
func (l *Log) Loose(ctx context.Context, shard int, behind bus.Place) ([]string, error) {
	subject := l.names.Subjects.TokenShard(shard)
	last, err := l.conn.Last(ctx, l.stream, subject)
	if errors.Is(err, bus.ErrNoMessage) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for requests of shard %d: %w", shard, err)
	}
	if behind, err = l.here(ctx, behind); err != nil || last.Sequence <= behind.Sequence {
		return nil, err
	}
	loose := map[string]bool{}
	err = l.conn.Follow(ctx, l.stream, []string{subject}, behind, func(m bus.Stored) bool {
		if e, err := decode(m); err != nil || e.Record.GetPacked() == nil {
			loose[schemas.LastToken(m.Subject)] = true
		}
		return m.Sequence < last.Sequence && len(loose) < maxLoose
	})
	if err != nil {
		return nil, fmt.Errorf("looking for requests of shard %d: %w", shard, err)
	}
	return slices.Sorted(maps.Keys(loose)), nil
}

// here returns a place in the stream that is there.
func (l *Log) here(ctx context.Context, p bus.Place) (bus.Place, error) {
	state, err := l.conn.State(ctx, l.stream)
	if err != nil {
		return p, err
	}
	if !state.Holds(p) {
		return bus.Place{}, nil
	}
	return p, nil
}

// Abandon ends a request that replicas of another version or model have accepted, by a
// terminal record that takes the place of all that lies there, as their readers have gone:
// what of the answer nobody has delivered yet nobody here can read. ended is what the log
// was opened with, in this kind's words. nil: there is no such acceptance, or it is of
// nobody that gone tells, or somebody else has ended the request.
func (l *Log) Abandon(ctx context.Context, request string, gone func(*pb.Identity) bool, t func(*KindError) *pb.Terminal) (ended *pb.Accept, end *pb.Terminal, err error) {
	h, err := l.read(ctx, request)
	if err != nil {
		return nil, nil, ignore(err, ErrUnknown)
	}
	id := h.chain.Foreign()
	if id == nil || !gone(id) {
		return nil, nil, nil
	}
	theirs, err := l.readAs(ctx, request, rulesOf(id), math.MaxUint64, 0)
	if err != nil || theirs.chain.accept == nil || theirs.chain.accept.Lost || theirs.entries[0].Packed {
		return nil, nil, ignore(err, ErrUnknown)
	}
	ended, end = l.adopt(theirs.chain.accept), t(&KindError{request, id})
	ended.Lost = true
	record := &pb.Record{Kind: &pb.Record_Packed{Packed: &pb.Packed{Accept: ended, Terminal: end}}}
	if _, err := l.put(ctx, request, record, h.tail); err != nil {
		return nil, nil, ignore(err, errConflict) // who came between has ended it, or is looked at again
	}
	return ended, end, nil
}

func ignore(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}
