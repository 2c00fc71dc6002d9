package bytewise

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// encoder reads the bytes of one character, and says which class it is of. State 0 is between
// characters.
type encoder struct {
	class   [256]uint8
	bytes   int     // classes of bytes
	next    []int32 // (states, bytes): a state, Dead, or the character's class by ended
	classes int     // of characters
	left    []int32 // (states, classes): bytes to the end of a character of a class
	words   int
	reach   []uint64 // (states, words): which classes there may be
	first   []byte   // one byte of each class of bytes
}

// ended returns the class of a character that ended.
func ended(next int32) int32 { return -2 - next }

func (e *encoder) after(s int32, b byte) int32 { return e.next[int(s)*e.bytes+int(e.class[b])] }

// manyRanges is from how many ranges of characters on only ASCII may be escaped by number.
const manyRanges = 64

func newEncoder(b *Budget, p *partition, o Options) (*encoder, error) {
	n := &nfa{budget: b, Options: o, every: len(p.cuts) <= manyRanges}
	start := n.add()
	ends := make([]int32, p.count)
	class := map[int32]int32{}
	for c := range ends {
		ends[c] = n.add()
		class[ends[c]] = int32(c)
	}
	p.ranges(func(c int32, low, high rune) {
		if o.Quoted {
			n.quotedRange(start, ends[c], low, high)
		} else {
			n.plainRange(start, ends[c], low, high)
		}
	})
	if n.err != nil {
		return nil, n.err
	}
	s := &encoding{nfa: n, e: &encoder{classes: p.count}, class: class, number: map[string]int32{}, marks: make([]bool, len(n.nodes))}
	return s.make(start)
}

// encoding makes states of sets of nodes.
type encoding struct {
	*nfa
	e      *encoder
	class  map[int32]int32 // of ends
	number map[string]int32
	sets   [][]int32
	marks  []bool
}

func (s *encoding) make(start int32) (*encoder, error) {
	s.classify()
	s.state(s.closure([]int32{start}))
	for at := 0; at < len(s.sets); at++ {
		if err := s.budget.takeState(); err != nil {
			return nil, err
		}
		reaching := make([][]int32, s.e.bytes)
		for _, from := range s.sets[at] {
			for _, m := range s.nodes[from].moves {
				first, last := s.e.class[m.low], s.e.class[m.high]
				if err := s.budget.takeWork(int(last-first) + 1); err != nil {
					return nil, err
				}
				for c := int(first); c <= int(last); c++ {
					reaching[c] = append(reaching[c], m.to)
				}
			}
		}
		for _, to := range reaching {
			s.e.next = append(s.e.next, s.to(to))
		}
	}
	return s.e, s.measure()
}

// to returns where bytes lead that reach some nodes.
func (s *encoding) to(nodes []int32) int32 {
	if len(nodes) == 0 {
		return Dead
	}
	set := s.closure(nodes)
	for _, at := range set {
		if c, is := s.class[at]; is {
			return ended(c)
		}
	}
	return s.state(set)
}

// classify finds the bytes that no move tells apart.
func (s *encoding) classify() {
	var begins [257]bool
	begins[0] = true
	for _, node := range s.nodes {
		for _, m := range node.moves {
			begins[m.low], begins[int(m.high)+1] = true, true
		}
	}
	for i := range 256 {
		if begins[i] {
			s.e.first = append(s.e.first, byte(i))
		}
		s.e.class[i] = uint8(len(s.e.first) - 1)
	}
	s.e.bytes = len(s.e.first)
}

// state returns the number of a set.
func (s *encoding) state(set []int32) int32 {
	key := make([]byte, 0, 4*len(set))
	for _, at := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(at))
	}
	n, ok := s.number[string(key)]
	if !ok {
		n = int32(len(s.sets))
		s.number[string(key)], s.sets = n, append(s.sets, set)
	}
	return n
}

// closure returns what can be reached for free, in order.
func (s *encoding) closure(from []int32) (out []int32) {
	visit := func(list []int32) {
		for _, at := range list {
			if !s.marks[at] {
				s.marks[at] = true
				out = append(out, at)
			}
		}
	}
	visit(from)
	for i := 0; i < len(out); i++ {
		visit(s.nodes[out[i]].free)
	}
	for _, at := range out {
		s.marks[at] = false
	}
	slices.Sort(out)
	return out
}

// measure finds what each state may come to, and in how many bytes. Characters have no loops,
// and no more bytes than rounds that change anything.
func (s *encoding) measure() error {
	e := s.e
	e.words = (e.classes + 63) / 64
	e.left, e.reach = make([]int32, len(s.sets)*e.classes), make([]uint64, len(s.sets)*e.words)
	for i := range e.left {
		e.left[i] = math.MaxInt32
	}
	for changed := true; changed; {
		changed = false
		if err := s.budget.takeWork(len(e.next)); err != nil {
			return err
		}
		for at := len(s.sets) - 1; at >= 0; at-- {
			for _, to := range e.next[at*e.bytes : (at+1)*e.bytes] {
				more, err := s.join(at, to)
				if err != nil {
					return err
				}
				changed = changed || more
			}
		}
	}
	return nil
}

// join adds to what a state may come to where a byte leads.
func (s *encoding) join(at int, to int32) (changed bool, err error) {
	e := s.e
	better := func(c int, left int32) {
		if here := &e.left[at*e.classes+c]; left < *here {
			*here, changed = left, true
			e.reach[at*e.words+c/64] |= 1 << (c % 64)
		}
	}
	switch {
	case to <= ended(0):
		better(int(ended(to)), 1)
	case to > 0: // and not between characters
		for w, word := range e.reach[int(to)*e.words : (int(to)+1)*e.words] {
			if err := s.budget.takeWork(1 + bits.OnesCount64(word)); err != nil {
				return false, err
			}
			for ; word != 0; word &= word - 1 {
				c := 64*w + bits.TrailingZeros64(word)
				better(c, e.left[int(to)*e.classes+c]+1)
			}
		}
	}
	return changed, nil
}
