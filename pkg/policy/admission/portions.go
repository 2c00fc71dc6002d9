package admission

import "sync"

// Portions divide a bound among its users, of which it is not known how many there
// are. Each may have as much as is left over: one alone gets a half, two get a third each,
// and the next one finds room, however much the others want (Choudhury and Hahne,
// Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998).
type Portions struct {
	size int64

	mu   sync.Mutex
	used int64
	by   map[string]int64
}

// NewPortions divides so much.
func NewPortions(size int64) *Portions { return &Portions{size: size, by: map[string]int64{}} }

// Take takes n for a user; false: it has its share, or nothing is left. A user that has
// nothing may take one thing of any size that there is room for. Who has no name is bounded
// by what is left alone.
func (s *Portions) Take(user string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, left := s.by[user], s.size-s.used
	if n > left || user != "" && have > 0 && have+n > left {
		return false
	}
	s.add(user, n)
	return true
}

// Give gives back what was taken.
func (s *Portions) Give(user string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(user, -n)
}

// Move has another user have what was taken, if it may; else it stays where it is.
func (s *Portions) Move(from, to string, n int64) bool {
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

// add changes what a user has; s.mu is held.
func (s *Portions) add(user string, n int64) {
	s.used += n
	if s.by[user] += n; s.by[user] <= 0 {
		delete(s.by, user)
	}
}

// Had is what all have together.
func (s *Portions) Had() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
