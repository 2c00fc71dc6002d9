package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// largerWithin is how long a sequence that only a replica that is gone could
// hold waits for one to come back.
const largerWithin = 10 * time.Second

// capacity says whether this replica, or a live one, has the pages for a sequence.
type capacity struct {
	pages   Pages
	members Members
	model   uint64
	within  time.Duration // largerWithin but in tests
}

func newCapacity(s Settings) *capacity {
	return &capacity{pages: s.Pages, members: s.Members, model: s.Deployment.Identity.Model, within: largerWithin}
}

// check leaves a sequence that this replica can never hold to a live one
// that can. When there is none for a while, it is refused: the tokenizer took
// it in when there was one.
func (c *capacity) check(ctx context.Context, seq *pb.Sequence, delivered int) error {
	if c.fits(seq) {
		return nil
	}
	need := c.pages.Need(edge.Positions(seq))
	largest, ok := c.awaitLarger(ctx, need)
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

// fits says whether this replica has as many pages as a sequence may ever need.
func (c *capacity) fits(seq *pb.Sequence) bool {
	return c.pages.Need(edge.Positions(seq)) <= c.pages.Capacity()
}

// awaitLarger waits for a live replica with as many pages; largest is what the
// largest has that is there.
func (c *capacity) awaitLarger(ctx context.Context, need int) (largest float64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	c.members.Follow(ctx, func(all []*pb.Member) {
		if largest = members.LargestKV(all, c.model); largest >= float64(need) {
			ok = true
			cancel()
		}
	})
	return max(largest, float64(c.pages.Capacity())), ok
}
