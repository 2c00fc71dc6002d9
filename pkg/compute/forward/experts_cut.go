package forward

const (
	// sharedRows are enough rows of a part of a group: kernels read weights once for no more than some tens.
	sharedRows = 48
	// manyItems of each thread are so many that threads end at about the same time, though each
	// item takes as long as wholeNanos. They wait for each other once, and not after each product of each expert.
	manyItems  = 4
	wholeNanos = 3_000_000
	// spreadNanos are what it takes to cut matrices over threads rather than to hand out groups.
	spreadNanos = 2_500
)

// uneven says that an item takes longer than all of them cut over so many threads.
func (s *ExpertScratch) uneven(total, threads int) bool {
	if threads == 1 {
		return false
	}
	for _, g := range s.items {
		if g.expert.nanos(g.to-g.from) > total/threads+spreadNanos {
			return true
		}
	}
	return false
}

// cut makes items of the groups, of which none takes long unless there are many; false: that would be too few rows.
func (s *ExpertScratch) cut(threads int) bool {
	s.items = s.items[:0]
	whole := s.many(threads)
	for _, g := range s.groups {
		rows := g.to - g.from
		n := max(1, pieces(g.expert.nanos(rows)))
		if n > 1 && rows < n*sharedRows {
			if !whole {
				return false
			}
			n = max(1, rows/sharedRows)
		}
		for i := range n {
			item := g
			item.from, item.to = g.from+i*rows/n, g.from+(i+1)*rows/n
			s.items = append(s.items, item)
		}
	}
	return true
}

// many says that the groups are many items as they are.
func (s *ExpertScratch) many(threads int) bool {
	total, longest := 0, 0
	for _, g := range s.groups {
		nanos := g.expert.nanos(g.to - g.from)
		total, longest = total+nanos, max(longest, nanos)
	}
	return longest <= wholeNanos && total >= threads*manyItems*longest
}

// pieces is into how many pieces work is cut that are not long.
func pieces(nanos int) int { return (nanos + mostNanos - 1) / mostNanos }
