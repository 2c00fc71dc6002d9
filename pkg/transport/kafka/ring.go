package kafka

// ring keeps the newest of what is pushed.
type ring[T any] struct {
	items []T
	first int // the oldest
	count int
}

func newRing[T any](size int) *ring[T] { return &ring[T]{items: make([]T, size)} }

// push adds an item, and reports whether the oldest had to go for it.
func (r *ring[T]) push(item T) (dropped bool) {
	if r.count == len(r.items) {
		r.first = (r.first + 1) % len(r.items)
		r.count--
		dropped = true
	}
	r.items[(r.first+r.count)%len(r.items)] = item
	r.count++
	return dropped
}

// take removes the n oldest items, or all if there are fewer, and appends them to out.
func (r *ring[T]) take(out []T, n int) []T {
	var zero T
	for ; n > 0 && r.count > 0; n-- {
		out = append(out, r.items[r.first])
		r.items[r.first] = zero
		r.first = (r.first + 1) % len(r.items)
		r.count--
	}
	return out
}
