package bytewise

import (
	"encoding/binary"
	"slices"
)

// nfa is an automaton with a choice of moves.
type nfa struct {
	budget *Budget
	Options
	nodes []node
	match int32
	// universal says that all is accepted from match on.
	universal bool
	err       error // of the budget
}

// node has moves for bytes, and free ones: always, at the beginning alone, at the end alone.
type node struct {
	moves            []move
	free, begin, end []int32
}

type move struct {
	low, high byte
	to        int32
}

func newNFA(b *Budget, o Options) *nfa { return &nfa{budget: b, Options: o} }

// perNode and perMember are what a node counts for in moves that are looked at, and a node in
// a set of them.
const perNode, perMember = 64, 4

func (n *nfa) add() int32 {
	if n.err == nil {
		n.err = n.budget.takeWork(perNode)
	}
	if n.err != nil && len(n.nodes) > 0 {
		return 0 // the next addition returns the error
	}
	n.nodes = append(n.nodes, node{})
	return int32(len(n.nodes) - 1)
}

func (n *nfa) free(from, to int32) { n.nodes[from].free = append(n.nodes[from].free, to) }

func (n *nfa) move(from int32, low, high byte, to int32) {
	n.nodes[from].moves = append(n.nodes[from].moves, move{low, high, to})
}

// loop lets a node read any characters.
func (n *nfa) loop(at int32) { n.free(n.anyRune(at), at) }

// subset makes states of sets of nodes.
type subset struct {
	*nfa
	d        *DFA
	number   map[string]int32
	sets     [][]int32
	marks    []uint32 // of nodes: in which closure they were met
	round    uint32
	byClass  []byte // one byte of each class
	reaching [][]int32
}

// determine makes the deterministic automaton.
func (n *nfa) determine(start int32) (*DFA, error) {
	if n.err != nil {
		return nil, n.err
	}
	s := &subset{nfa: n, d: &DFA{}, number: map[string]int32{}, marks: make([]uint32, len(n.nodes))}
	s.classify()
	begin := s.closure([]int32{start}, true)
	s.d.Start = s.state(begin)
	if s.acceptsNothing(start) && !s.d.accept[s.d.Start] { // the same set elsewhere accepts no end
		s.d.Start = s.add(begin, true)
	}
	for at := 0; at < len(s.sets); at++ {
		if err := s.budget.takeState(); err != nil {
			return nil, err
		}
		if err := s.row(s.sets[at]); err != nil {
			return nil, err
		}
	}
	return s.d.finish()
}

// classify finds the bytes that no move tells apart.
func (s *subset) classify() {
	var begins [257]bool
	begins[0] = true
	for _, node := range s.nodes {
		for _, m := range node.moves {
			begins[m.low], begins[int(m.high)+1] = true, true
		}
	}
	for i := range 256 {
		if begins[i] {
			s.byClass = append(s.byClass, byte(i))
		}
		s.d.class[i] = uint8(len(s.byClass) - 1)
	}
	s.d.classes = len(s.byClass)
	s.reaching = make([][]int32, s.d.classes)
}

// row finds where each class of bytes leads from a set.
func (s *subset) row(set []int32) error {
	for c := range s.reaching {
		s.reaching[c] = s.reaching[c][:0]
	}
	for _, at := range set {
		for _, m := range s.nodes[at].moves {
			first, last := s.d.class[m.low], s.d.class[m.high]
			if err := s.budget.takeWork(int(last-first) + 1); err != nil {
				return err
			}
			for c := int(first); c <= int(last); c++ {
				s.reaching[c] = append(s.reaching[c], m.to)
			}
		}
	}
	for _, to := range s.reaching {
		if len(to) == 0 {
			s.d.next = append(s.d.next, Dead)
			continue
		}
		set := s.closure(to, false)
		if err := s.budget.takeWork(perMember * len(set)); err != nil {
			return err
		}
		s.d.next = append(s.d.next, s.state(set))
	}
	return nil
}

// state is the number of a set.
func (s *subset) state(set []int32) int32 {
	key := make([]byte, 0, 4*len(set))
	for _, at := range set {
		key = binary.LittleEndian.AppendUint32(key, uint32(at))
	}
	n, ok := s.number[string(key)]
	if !ok {
		n = s.add(set, s.accepts(set))
		s.number[string(key)] = n
	}
	return n
}

// add makes a state of a set.
func (s *subset) add(set []int32, accepts bool) int32 {
	s.sets = append(s.sets, set)
	s.d.accept = append(s.d.accept, accepts)
	return int32(len(s.sets) - 1)
}

// closure is what can be reached for free, in order.
func (s *subset) closure(from []int32, atBegin bool) []int32 {
	out := s.follow(nil, from, func(n *node) [][]int32 {
		if atBegin {
			return [][]int32{n.free, n.begin}
		}
		return [][]int32{n.free}
	})
	if s.universal && slices.Contains(out, s.match) {
		out = s.follow(out[:0], []int32{s.match}, func(n *node) [][]int32 { return [][]int32{n.free} })
	}
	slices.Sort(out)
	return out
}

// follow appends what free moves reach.
func (s *subset) follow(out, from []int32, moves func(*node) [][]int32) []int32 {
	s.round++
	visit := func(list []int32) {
		for _, at := range list {
			if s.marks[at] != s.round {
				s.marks[at] = s.round
				out = append(out, at)
			}
		}
	}
	visit(from)
	for i := 0; i < len(out); i++ {
		for _, list := range moves(&s.nodes[out[i]]) {
			visit(list)
		}
	}
	return out
}

// acceptsNothing says whether the text without bytes is accepted, whose beginning is its end.
func (s *subset) acceptsNothing(start int32) bool {
	return slices.Contains(s.follow(nil, []int32{start}, func(n *node) [][]int32 { return [][]int32{n.free, n.begin, n.end} }), s.match)
}

// accepts says whether a text with bytes may end in a set.
func (s *subset) accepts(set []int32) bool {
	return slices.Contains(s.follow(nil, set, func(n *node) [][]int32 { return [][]int32{n.free, n.end} }), s.match)
}
