package engine

// owned are the sequences of this replica.
type owned struct {
	byRequest map[string]*Sequence
	order     []*Sequence // oldest served first
}

// put takes a sequence in, in the place of another one of its request.
func (o *owned) put(s *Sequence) {
	o.byRequest[s.seq.RequestId] = s
	o.order = append(o.order, s)
}

// remove takes a sequence out.
func (o *owned) remove(s *Sequence) {
	if o.byRequest[s.seq.RequestId] == s {
		delete(o.byRequest, s.seq.RequestId)
	}
	kept := o.order[:0]
	for _, other := range o.order {
		if other != s {
			kept = append(kept, other)
		}
	}
	o.order = kept
}

// holds says whether a request is being worked on here.
func (o *owned) holds(request string) bool { return o.byRequest[request] != nil }

// rotate moves the chosen to the end of the order, so that all get their turn.
func (o *owned) rotate(mb *microbatch) {
	kept := o.order[:0]
	for _, s := range o.order {
		if s.flight != mb {
			kept = append(kept, s)
		}
	}
	for i := range mb.parts {
		kept = append(kept, mb.parts[i].s)
	}
	o.order = kept
}

// decoding is how many make a token with each step, and may.
func (o *owned) decoding() (n int) {
	for _, s := range o.order {
		if !s.ended && !s.doubtful && s.table != nil && s.decoding() && (s.flight != nil || !s.writer.Full() && s.table.Positions() >= s.extent()) {
			n++
		}
	}
	return n
}

// unread is how many rows of prompts are to be computed.
func (o *owned) unread() (rows int64) {
	for _, s := range o.order {
		if !s.ended && !s.decoding() {
			rows += int64(s.pending() + s.unread())
		}
	}
	return rows
}

// unstepped is how many sequences have nothing computed, and no row in flight.
func (o *owned) unstepped() (n int64) {
	for _, s := range o.order {
		if !s.ended && s.flight == nil && s.done == 0 && !s.flow.IsCanary() {
			n++
		}
	}
	return n
}
