package bytewise

// nfa is an automaton with a choice of moves.
type nfa struct {
	budget *Budget
	Options
	nodes []node
	every bool  // characters may be escaped by number, and not ASCII alone
	err   error // of the budget
}

// node has moves for bytes, and free ones.
type node struct {
	moves []move
	free  []int32
}

type move struct {
	low, high byte
	to        int32
}

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
