package pushdown

// Least returns how many more bytes there are at least until the text may end, or some more than that:
// some byte always leads to less.
func (f *Follower) Least(s *State) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.over {
		return 0
	}
	least := int32(never)
	for _, it := range s.items {
		least = min(least, f.g.terms[it.term].least(it.within)+f.leastOf(it.calls))
	}
	return int(least)
}

func (f *Follower) leastOf(calls *stack) int32 {
	if calls.bottom {
		return 0
	}
	if calls.least == 0 {
		calls.least = never
		for _, to := range calls.frames {
			calls.least = min(calls.least, f.g.distance(to.to, to.count)+f.leastOf(to.next))
		}
	}
	return calls.least
}
