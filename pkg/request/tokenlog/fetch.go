package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// Fetch is Read of all that a log has, message by message: it needs no consumer, and so no right to
// make one.
func (l *Log) Fetch(ctx context.Context, request string) ([]Entry, Chain, error) {
	h := &history{chain: NewChain(l.s.Rules)}
	for next := uint64(1); ; next = h.tail + 1 {
		m, err := l.conn.Next(ctx, l.stream, l.names.Subjects.Token(request), next)
		switch {
		case errors.Is(err, bus.ErrNoMessage) && next == 1:
			return nil, Chain{}, fmt.Errorf("%w: %s", ErrUnknown, request)
		case errors.Is(err, bus.ErrNoMessage):
			return h.entries, h.chain, nil
		case err != nil:
			return nil, Chain{}, fmt.Errorf("reading the log of %s: %w", request, err)
		}
		l.take(request, h, m)
		if err := noisy(h.noise, maxNoise, request); err != nil || h.tail == math.MaxUint64 {
			return nil, Chain{}, err
		}
	}
}
