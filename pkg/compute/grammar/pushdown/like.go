package pushdown

import "slices"

// like returns the state whose counts are the first ones for which the bytes of any token are as for
// those of another state. So masks are as many as there are differences, whatever is counted.
func (f *Follower) like(s *State) *State {
	items, same := make([]item, len(s.items)), true
	for i, it := range s.items {
		items[i] = item{inside{it.term, f.g.terms[it.term].like(it.within, f.vocab.deep)}, f.likeStack(it.calls)}
		same = same && items[i] == it
	}
	if same {
		return s
	}
	slices.SortFunc(items, func(a, b item) int { return inOrder(a.inside, b.inside) })
	for i := range items[1:] {
		if items[i].inside == items[i+1].inside {
			return s
		}
	}
	return f.stateOf(items, s.over)
}

func (f *Follower) likeStack(s *stack) *stack {
	if s.like != nil {
		return s.like
	}
	s.like = s
	frames, same := make([]frame, len(s.frames)), true
	for i, fr := range s.frames {
		frames[i] = frame{fr.to, f.g.counts[fr.to].like(fr.count, f.vocab.deep), f.likeStack(fr.next)}
		same = same && frames[i] == fr
	}
	if same {
		return s
	}
	slices.SortFunc(frames, framesInOrder)
	for i := range frames[1:] {
		if framesInOrder(frames[i], frames[i+1]) == 0 {
			return s
		}
	}
	s.like = f.stack(frames, s.bottom)
	return s.like
}
