package forward

// What comes of a step is the logits of some rows, and keys and values of all. So behind keys and values of the last
// layer, other rows need not be computed: of a prompt, all but its last one. No bit of a logit changes, as a row's
// result does not depend on the others.

// narrow has layer l go on with rows that want logits alone, if it is the last one of the step and
// nobody wants the others.
func (s *Step) narrow(l int) {
	_, end := s.span()
	on, ok := s.lane.(*lane)
	if !ok || on.keys || !s.OnlyWanted || l < end-1 || Encodes(s.rows) || len(s.wanted) == len(s.rows) {
		return
	}
	s.narrowed = true
	on.end(s.wanted)
}

// places returns where the lane has the rows that want logits.
func (s *Step) places() []int {
	if !s.narrowed {
		return s.wanted
	}
	s.compact = s.compact[:0]
	for i := range s.wanted {
		s.compact = append(s.compact, i)
	}
	return s.compact
}

// end has the next layer be the last, of which these rows are wanted. Rows are shared out no more.
func (s *lane) end(wanted []int) { s.wanted, s.narrows, s.count = wanted, true, 0 }

// narrow goes on with the rows that are wanted, if the layer is to: when the keys and values of all are stored. It
// moves what the step has of them, and what its attention has (R, width), to the front.
func (s *lane) narrow(mine []float32, width int) {
	if !s.narrows {
		return
	}
	s.narrows = false
	d, n := s.spec.Hidden, len(s.wanted)
	front(s.x, s.wanted, d)
	front(mine, s.wanted, width)
	s.left = s.left[:0]
	for _, i := range s.wanted {
		s.left = append(s.left, s.rows[i])
	}
	s.rows = s.left
	s.x, s.norm, s.block, s.shared = s.x[:n*d], s.norm[:n*d], s.block[:n*d], s.shared[:n*d]
}

// front moves some rows of x (…, width) to its front, in their order, which is ascending.
func front(x []float32, rows []int, width int) {
	for to, from := range rows {
		copy(x[to*width:(to+1)*width], x[from*width:(from+1)*width])
	}
}
