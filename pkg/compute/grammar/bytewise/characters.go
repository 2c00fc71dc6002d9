package bytewise

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// characters is a deterministic automaton over classes of characters. A state within a counted
// repetition has a counter: next and accepts ask how far it is.
type characters struct {
	classes int
	start   int32
	rows    [][stages]int32 // of each state, by its counter's stage
	steps   []step          // (rows, classes)
	accepts []bool          // of rows
	counter []counter       // of each state; most 0: it has none
	base    []int32         // of each state's distances
	far     []int32         // characters to acceptance, by state and counter
}

// step is where a class leads; Dead: nowhere.
type step struct {
	to  int32
	how counting
}

// counting is what a step does to the counter.
type counting uint8

const (
	none counting = iota
	keeps
	adds
	begins
)

// The stages of a counter: another time has to come, may come, may not come.
const (
	must = iota
	may
	mayNot
	stages
)

func (c counter) stage(n int32) int {
	switch {
	case c.most == 0, n+1 < c.least:
		return must
	case n+1 < c.most:
		return may
	}
	return mayNot
}

// next returns where a class leads.
func (d *characters) next(s, n, class int32) (to, count int32) {
	st := d.steps[int(d.rows[s][d.counter[s].stage(n)])*d.classes+int(class)]
	switch st.how {
	case keeps:
		count = n
	case adds:
		if count = n + 1; d.counter[s].most == math.MaxInt32 {
			count = min(count, max(d.counter[s].least, 1)-1)
		}
	}
	if st.to == Dead || d.least(st.to, count) == math.MaxInt32 {
		return Dead, 0
	}
	return st.to, count
}

func (d *characters) accepted(s, n int32) bool {
	return d.accepts[d.rows[s][d.counter[s].stage(n)]]
}

// least returns how many characters there are at least to acceptance.
func (d *characters) least(s, n int32) int32 { return d.far[d.base[s]+d.distance(s, n)] }

// distance returns which of a state's distances is that of a counter.
func (d *characters) distance(s, n int32) int32 {
	c := d.counter[s]
	if c.most == 0 {
		return 0
	}
	last := max(c.least, 1)
	if c.stage(n) == mayNot {
		return last
	}
	return min(n, last-1)
}

// ambiguousError says that a repetition cannot be counted, as how often it was gone through depends
// on what follows.
type ambiguousError struct{ of *Expression }

func (*ambiguousError) Error() string { return "an ambiguous repetition" }

// maxAmbiguous bounds how often an automaton is begun anew without a counter.
const maxAmbiguous = 16

// newCharacters makes the automaton of an expression. Without counters each repetition is
// gone through time by time.
func newCharacters(b *Budget, classes *partition, e *Expression, counters bool) (*characters, error) {
	unrolled := map[*Expression]bool{}
	for range maxAmbiguous {
		d, err := determine(b, classes, e, unrolled, counters)
		var wrong *ambiguousError
		if !errors.As(err, &wrong) {
			return d, err
		}
		unrolled[wrong.of] = true
	}
	return determine(b, classes, e, unrolled, false)
}

// determination makes states of sets of positions.
type determination struct {
	positions
	d      *characters
	number map[string]int32
	sets   [][]int32
	seen   []counting // of positions, in the closure that is being made
	marks  []uint32   // in which closure they were met
	round  uint32
	wrong  *ambiguousError
	// reached is the closure that is being made.
	reached []int32
}

func determine(b *Budget, classes *partition, e *Expression, unrolled map[*Expression]bool, counters bool) (*characters, error) {
	s := &determination{positions: positions{budget: b, classes: classes, unrolled: unrolled}, number: map[string]int32{}}
	if !counters {
		s.unrollAll(e)
	}
	start := s.add(-1)
	e, s.search = searched(e)
	if s.search {
		s.nodes[start].reads = append(s.nodes[start].reads, read{classes.of(anyRune()), start})
	}
	end, err := s.expression(e, start)
	if err != nil {
		return nil, err
	}
	if s.match = end; s.search {
		s.match = s.add(-1)
		s.jump(end, s.match, plainly)
		s.nodes[s.match].reads = append(s.nodes[s.match].reads, read{classes.of(anyRune()), s.match})
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.make(start)
}

func (s *determination) unrollAll(e *Expression) {
	s.unrolled[e] = true
	for _, sub := range e.sub {
		s.unrollAll(sub)
	}
}

// searched returns the expression that may match anywhere, if that is what one says.
func searched(e *Expression) (*Expression, bool) {
	if e.op == opJoin && len(e.sub) == 3 && e.sub[0].isAny() && e.sub[2].isAny() {
		return e.sub[1], true
	}
	return e, false
}

// isAny reports whether an expression is any text.
func (e *Expression) isAny() bool {
	return e.op == opRepeat && e.least == 0 && e.most < 0 && e.sub[0].op == opRunes && slices.Equal(e.sub[0].runes, anyRune().runes)
}

func (s *determination) make(start int32) (*characters, error) {
	s.d = &characters{classes: s.classes.count}
	s.seen, s.marks = make([]counting, len(s.nodes)), make([]uint32, len(s.nodes))
	s.state([]int32{start}, true)
	for at := 0; at < len(s.sets); at++ {
		if err := s.budget.takeState(); err != nil {
			return nil, err
		}
		if err := s.leave(int32(at)); err != nil {
			return nil, err
		}
	}
	return s.d, s.measure()
}

// state returns the number of a set. The one to begin with is never found again.
func (s *determination) state(set []int32, first bool) int32 {
	key := make([]byte, 0, 4*len(set))
	for _, at := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(at))
	}
	if n, ok := s.number[string(key)]; ok {
		return n
	}
	n := int32(len(s.sets))
	if !first {
		s.number[string(key)] = n
	}
	c := counter{}
	for _, at := range set {
		if in := s.nodes[at].counter; in >= 0 {
			c = s.counters[in]
		}
	}
	s.sets, s.d.counter = append(s.sets, set), append(s.d.counter, c)
	return n
}

// leave finds where a state's classes lead, in each stage of its counter.
func (s *determination) leave(at int32) error {
	var rows [stages]int32
	for stage := range stages {
		if stage > 0 && s.d.counter[at].most == 0 {
			rows[stage] = rows[0]
			continue
		}
		ends := s.closure(s.sets[at], stage, at == 0, true)
		rows[stage] = int32(len(s.d.accepts))
		s.d.accepts = append(s.d.accepts, slices.Contains(ends, s.match))
		reached := s.closure(s.sets[at], stage, at == 0, false)
		if err := s.row(reached); err != nil {
			return err
		}
	}
	s.d.rows = append(s.d.rows, rows)
	return nil
}

// row finds where classes lead from what was reached for free.
func (s *determination) row(reached []int32) error {
	if s.wrong != nil {
		return s.wrong
	}
	led := make([]leading, s.d.classes)
	if err := s.budget.takeWork(s.d.classes); err != nil {
		return err
	}
	for _, at := range reached {
		for _, r := range s.nodes[at].reads {
			if err := s.budget.takeWork(len(r.classes) + 1); err != nil {
				return err
			}
			for _, c := range r.classes {
				if err := s.lead(&led[c], r.to, s.seen[at]); err != nil {
					return err
				}
			}
		}
	}
	return s.steps(led)
}

// leading is where a class leads.
type leading struct {
	to  []int32
	how counting // none: into no counted repetition
	in  int32
}

// lead adds a position to where a class leads.
func (s *determination) lead(l *leading, to int32, how counting) error {
	l.to = append(l.to, to)
	in := s.nodes[to].counter
	switch {
	case in < 0:
	case l.how == none:
		l.in, l.how = in, how
	case l.in != in || l.how != how:
		return s.blame(l.in, in)
	}
	return nil
}

// blame returns the error of a counter of two that is not clear.
func (s *determination) blame(a, b int32) error {
	one, other := s.counters[a], s.counters[b]
	if max(one.least, one.most%math.MaxInt32) > max(other.least, other.most%math.MaxInt32) {
		one = other
	}
	return &ambiguousError{one.of}
}

func (s *determination) steps(led []leading) error {
	for _, l := range led {
		if len(l.to) == 0 {
			s.d.steps = append(s.d.steps, step{Dead, none})
			continue
		}
		slices.Sort(l.to)
		set := slices.Compact(l.to)
		if err := s.budget.takeWork(perMember * len(set)); err != nil {
			return err
		}
		if s.search && s.plainly(set) {
			set, l.how = []int32{s.match}, none
		}
		s.d.steps = append(s.d.steps, step{s.state(set, false), l.how})
	}
	return nil
}

// plainly reports whether a set reaches the end of a search, whatever a counter is.
func (s *determination) plainly(set []int32) bool {
	s.round++
	queue := slices.Clone(set)
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		if at == s.match {
			return true
		}
		for _, j := range s.nodes[at].free {
			if j.how == plainly && s.marks[j.to] != s.round {
				s.marks[j.to] = s.round
				queue = append(queue, j.to)
			}
		}
	}
	return false
}

// closure returns what can be reached for free from a set, in a stage of its counter.
func (s *determination) closure(set []int32, stage int, atBegin, atEnd bool) []int32 {
	s.round++
	s.reached = s.reached[:0]
	for _, at := range set {
		s.visit(at, keeps)
	}
	for i := 0; i < len(s.reached); i++ {
		at := &s.nodes[s.reached[i]]
		how := s.seen[s.reached[i]]
		for _, j := range at.free {
			if how, may := j.from(how, stage); may {
				s.visit(j.to, how)
			}
		}
		if atBegin {
			s.visitAll(at.begin, how)
		}
		if atEnd {
			s.visitAll(at.end, how)
		}
	}
	return s.reached
}

// from returns what a jump does to the counter, and whether it may be in a stage of it.
func (j jump) from(how counting, stage int) (counting, bool) {
	switch j.how {
	case entering:
		return begins, true
	case again:
		return adds, how == keeps && stage != mayNot
	case leaving:
		return none, how == keeps && stage != must
	}
	return how, true
}

func (s *determination) visitAll(all []int32, how counting) {
	for _, at := range all {
		s.visit(at, how)
	}
}

// visit adds a position to what is reached.
func (s *determination) visit(at int32, how counting) {
	if s.nodes[at].counter < 0 {
		how = none
	}
	switch {
	case s.marks[at] != s.round:
		s.marks[at], s.seen[at] = s.round, how
		s.reached = append(s.reached, at)
	case s.seen[at] != how && s.wrong == nil:
		s.wrong = &ambiguousError{s.counters[s.nodes[at].counter].of}
	}
}

// measure finds how far acceptance is from each state, at each of its counter's distances.
func (s *determination) measure() error {
	d := s.d
	total := int32(0)
	for _, c := range d.counter {
		d.base = append(d.base, total)
		size := int32(1)
		if c.most > 0 {
			size = max(c.least, 1) + 1
		}
		if err := s.budget.takeWork(int(size)); err != nil {
			return err
		}
		total += size
	}
	d.far = make([]int32, total)
	from := make([][]int32, total) // what leads to each
	var queue []int32
	for at := range d.counter {
		if err := s.sources(int32(at), from, &queue); err != nil {
			return err
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, before := range from[queue[0]] {
			if d.far[before] == math.MaxInt32 {
				d.far[before] = d.far[queue[0]] + 1
				queue = append(queue, before)
			}
		}
	}
	if d.far[0] == math.MaxInt32 {
		return ErrEmpty
	}
	return nil
}

// sources notes where a state leads from each of its distances, and which accept.
func (s *determination) sources(at int32, from [][]int32, queue *[]int32) error {
	d := s.d
	c := d.counter[at]
	size := int32(1)
	if c.most > 0 {
		size = max(c.least, 1) + 1
	}
	for n := range size {
		here := d.base[at] + n
		d.far[here] = math.MaxInt32
		count, stage := n, must
		switch {
		case c.most == 0:
		case n == size-1:
			count, stage = c.most-1, mayNot
		case n+1 >= c.least:
			stage = may
		}
		row := d.rows[at][stage]
		if d.accepts[row] {
			d.far[here] = 0
			*queue = append(*queue, here)
		}
		if err := s.budget.takeWork(d.classes); err != nil {
			return err
		}
		last := int32(-1)
		for _, st := range d.steps[int(row)*d.classes : (int(row)+1)*d.classes] {
			if st.to == Dead {
				continue
			}
			to := count
			switch st.how {
			case adds:
				to = count + 1
			case begins, none:
				to = 0
			}
			target := d.base[st.to] + d.distance(st.to, to)
			if target != last {
				from[target] = append(from[target], here)
				last = target
			}
		}
	}
	return nil
}
