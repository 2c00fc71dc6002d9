package intake

import "context"

// slots counts free places.
type slots chan struct{}

func newSlots(n int) slots {
	r := make(slots, n)
	r.give(n)
	return r
}

func (r slots) give(n int) {
	for range n {
		r <- struct{}{}
	}
}

// take waits for a free place and takes all there are; 0: ctx has ended.
func (r slots) take(ctx context.Context) (n int) {
	select {
	case <-r:
	case <-ctx.Done():
		return 0
	}
	for n = 1; ; n++ {
		select {
		case <-r:
		default:
			return n
		}
	}
}
