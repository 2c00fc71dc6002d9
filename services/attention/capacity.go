package attention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// errElsewhere says that a sequence is too large for this replica and is given
// back for a sibling.
var errElsewhere = errors.New("a larger replica is to take it")

const (
	// elsewherePause is the pause before a sequence that was given back comes
	// again, perhaps to the same replica: it grows with each time.
	elsewherePause    = 50 * time.Millisecond
	maxElsewherePause = time.Second
	// largerWithin is how long a sequence that only a replica that is gone could
	// hold waits for one to come back.
	largerWithin = 10 * time.Second
)

// checkCapacity leaves a sequence that this replica can never hold to a live one
// that can. When there is none for a while, it is refused: the tokenizer took
// it in when there was one.
func (s *Service) checkCapacity(ctx context.Context, seq *pb.Sequence, delivered int) error {
	if s.fits(seq) {
		return nil
	}
	need := s.kv.Need(edge.Positions(seq))
	largest, ok := s.awaitLarger(ctx, need)
	switch {
	case ok:
		return toSibling(delivered)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &refusedError{seq, "model_not_ready", fmt.Errorf(
		"the request needs %d KV pages, and the largest live attention replica has %d: ask for fewer tokens, or start a replica with more --kv-memory",
		need, int(largest))}
}

// toSibling gives a sequence back.
func toSibling(delivered int) error {
	return bus.RetryAfter(min(elsewherePause*time.Duration(delivered), maxElsewherePause), errElsewhere)
}

// checkLength leaves a sequence that is longer than --max-model-len lets it be here to a
// live replica of a longer one. Where there is none, CheckSequence refuses it.
func (s *Service) checkLength(seq *pb.Sequence, delivered int) error {
	need := edge.Positions(seq)
	if need > s.limits().MaxLen && members.LongestContext(s.view.Snapshot(), s.d.Identity.Model) >= float64(need) {
		return toSibling(delivered)
	}
	return nil
}

// fits says whether this replica has as many pages as a sequence may ever need.
func (s *Service) fits(seq *pb.Sequence) bool {
	return s.kv.Need(edge.Positions(seq)) <= s.kv.Capacity()
}

// awaitLarger waits for a live replica with as many pages; largest is what the
// largest has that is there.
func (s *Service) awaitLarger(ctx context.Context, need int) (largest float64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, s.largerWithin)
	defer cancel()
	s.view.Follow(ctx, func(all []*pb.Member) {
		if largest = members.LargestKV(all, s.d.Identity.Model); largest >= float64(need) {
			ok = true
			cancel()
		}
	})
	return max(largest, float64(s.kv.Capacity())), ok
}

// tellRoom warns of memory that holds less than a sequence may have: what is longer is
// accepted only while another replica has room for it.
func (s *Service) tellRoom() {
	if short := shortOfRoom(s.kv, s.limits().MaxLen, s.config.GPU != nil); short != nil {
		s.d.Logger.Warn("keys and values have room for fewer positions than a sequence may have: longer requests are refused, unless another attention replica has the room", short...)
	}
}

// shortOfRoom says how many positions of a sequence's fit, and what to do; nil: all do.
func shortOfRoom(kv *kvcache.Pool, longest int, onGPU bool) []any {
	holds := kv.Holds(longest)
	if holds >= longest {
		return nil
	}
	needed := int64(kv.Need(longest)) * kv.PageBytes()
	cure := fmt.Sprintf("give --kv-memory %dMiB, or --max-model-len %d", (needed+1<<20-1)>>20, holds)
	if onGPU {
		cure = fmt.Sprintf("give --gpu-memory more, or --max-model-len %d", holds)
	}
	return []any{"positions", holds, "context", longest, "needed_bytes", needed, "cure", cure}
}
