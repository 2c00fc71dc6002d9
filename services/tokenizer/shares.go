package tokenizer

import "sync"

// shares divides a bound among those who use it, of whom nobody knows how many there
// are. Each may have as much as is left over: one alone gets a half, two get a third each,
// and whoever comes next finds room, however much the others want (Choudhury and Hahne,
// Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998).
type shares struct {
	size int64

	mu   sync.Mutex
	used int64
	by   map[string]int64
}

func newShares(size int64) *shares { return &shares{size: size, by: map[string]int64{}} }

// take takes n for somebody; false: he has his share, or nothing is left. Who has nothing
// may take one thing of any size that there is room for.
func (s *shares) take(who string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, left := s.by[who], s.size-s.used
	if n > left || have > 0 && have+n > left {
		return false
	}
	s.add(who, n)
	return true
}

// give gives back what was taken.
func (s *shares) give(who string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(who, -n)
}

// move has somebody else have what was taken, if he may; else it stays where it is.
func (s *shares) move(from, to string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, left := s.by[to], s.size-s.used+n
	if from != to && have > 0 && have+n > left {
		return false
	}
	s.add(from, -n)
	s.add(to, n)
	return true
}

// add changes what somebody has; s.mu is held.
func (s *shares) add(who string, n int64) {
	s.used += n
	if s.by[who] += n; s.by[who] <= 0 {
		delete(s.by, who)
	}
}

// had is what all have together.
func (s *shares) had() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
