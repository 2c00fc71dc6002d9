package members

import "time"

const (
	// fresh is the silence up to which a replica surely lives: a renewal and a half.
	fresh = Interval * 3 / 2
	// suspectFor is how long after the server was away work may come again that its
	// owner has.
	suspectFor = 2 * time.Second
	// leaveFor is when work comes again that was left to its owner, unless that renews
	// it by then; askAgain is when it does while nobody is heard.
	leaveFor = 500 * time.Millisecond
	askAgain = 200 * time.Millisecond
)

// Leave says for how long work that came again, by its place in the stream, is to be left
// to the sibling that has it: it could renew nothing while the server was away. 0: it is
// for this replica.
func (s *Siblings) Leave(place uint64, now time.Time) time.Duration {
	nobody := s.hearsNobody()
	owner := s.owner(place, now, nobody)
	if owner == "" {
		return 0
	}
	silent, here := s.s.Members.Silent(owner)
	switch {
	case here && silent < fresh:
		return leaveFor
	case nobody:
		return askAgain
	}
	return 0
}

// owner is the sibling that said it has a message, if the server was away a moment ago.
func (s *Siblings) owner(place uint64, now time.Time, nobody bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !nobody && now.Sub(s.deaf) > suspectFor {
		return ""
	}
	for who, has := range s.told {
		if _, ok := has[place]; ok {
			return who
		}
	}
	return ""
}

// hearsNobody says that this replica does not even hear itself.
func (s *Siblings) hearsNobody() bool {
	silent, here := s.s.Members.Silent(s.s.ID)
	return !s.s.Connected() || !here || silent >= fresh
}

// listen notes when nobody is heard.
func (s *Siblings) listen(now time.Time) {
	if !s.hearsNobody() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = now
}
