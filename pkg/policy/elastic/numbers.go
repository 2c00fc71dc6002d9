package elastic

// numbers tells samples of one sender and layer that were taken from new ones.
type numbers struct {
	last   uint64
	before uint64 // bit i: last−1−i was taken
}

// late is how far behind the last one a sample may come.
const late = 64

// take says whether a number is new, and how many it passes over.
func (n *numbers) take(number uint64) (fresh bool, missing uint64) {
	switch {
	case number > n.last:
		ahead := number - n.last
		if n.last > 0 {
			missing = ahead - 1
			n.before = n.before<<ahead | 1<<(ahead-1) // 0 for shifts beyond 64
		}
		n.last = number
		return true, missing
	case number == n.last || n.last-number > late:
		return false, 0
	}
	bit := uint64(1) << (n.last - number - 1)
	fresh = n.before&bit == 0
	n.before |= bit
	return fresh, 0
}
