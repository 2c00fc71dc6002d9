package words

// longWord is a word under merging as a linked list, and where in it the pairs
// of each rank are. Each symbol is looked at a bounded number of times, so that
// merging takes linear time, but for heaps of the ranks that are met and of places
// that are noted out of order.
type longWord struct {
	table *Pairs
	// next and prev are indices, -1 at the ends; a symbol that was merged into
	// its left neighbour has id None.
	id         []uint32
	next, prev []int32

	pairs map[uint32]*places // by rank
	ranks heap               // those in pairs

	lastKey             uint64 // the pair looked up last: long words repeat themselves
	lastRank, lastWhole uint32

	looks int // at pairs, for tests
}

// places are where pairs of one rank are, or were when they were noted: those that
// came in order, and the others.
type places struct {
	at   []int32
	next int // of at
	late heap
}

func (p *places) add(i int32) {
	if p.next < len(p.at) && p.at[len(p.at)-1] > i {
		p.late.push(uint64(i))
		return
	}
	p.at = append(p.at, i)
}

// pop takes the leftmost.
func (p *places) pop() (i int32, ok bool) {
	switch here := p.next < len(p.at); {
	case len(p.late) > 0 && (!here || p.late[0] < uint64(p.at[p.next])):
		return int32(p.late.pop()), true
	case here:
		p.next++
		return p.at[p.next-1], true
	}
	return 0, false
}

func newLongWord(p *Pairs, ids []uint32) *longWord {
	w := &longWord{table: p, id: ids, next: make([]int32, len(ids)), prev: make([]int32, len(ids)), pairs: map[uint32]*places{}}
	for i := range ids {
		w.next[i], w.prev[i] = int32(i+1), int32(i-1)
	}
	w.next[len(ids)-1] = -1
	for i := range ids {
		w.note(int32(i))
	}
	return w
}

// merge does what mergeShort does: lowest rank first, and of one rank leftmost first.
func (w *longWord) merge() []uint32 {
	for len(w.ranks) > 0 {
		w.mergeRank(uint32(w.ranks.pop()))
	}
	return w.compact()
}

// mergeRank merges the pairs of a rank, until one leads to a pair that comes
// before the rest of them.
func (w *longWord) mergeRank(rank uint32) {
	found := w.pairs[rank]
	for {
		i, ok := found.pop()
		if !ok {
			delete(w.pairs, rank)
			return
		}
		if w.mergeAt(rank, i) && len(w.ranks) > 0 && w.ranks[0] < uint64(rank) {
			w.ranks.push(uint64(rank))
			return
		}
	}
}

// mergeAt merges symbol i with its right neighbour, if they still are a pair of this rank.
func (w *longWord) mergeAt(rank uint32, i int32) bool {
	found, whole := w.pair(i)
	if found != rank {
		return false
	}
	j := w.next[i]
	w.id[i], w.id[j] = whole, NoPair
	w.next[i] = w.next[j]
	if k := w.next[i]; k >= 0 {
		w.prev[k] = i
	}
	if w.prev[i] >= 0 {
		w.note(w.prev[i])
	}
	w.note(i)
	return true
}

// note remembers the pair that begins at i.
func (w *longWord) note(i int32) {
	rank, _ := w.pair(i)
	if rank == NoPair {
		return
	}
	found := w.pairs[rank]
	if found == nil {
		found = &places{}
		w.pairs[rank] = found
		w.ranks.push(uint64(rank))
	}
	found.add(i)
}

// pair returns what symbol i and its right neighbour become, None if they stay apart.
func (w *longWord) pair(i int32) (rank, whole uint32) {
	w.looks++
	if w.id[i] == NoPair || w.next[i] < 0 {
		return NoPair, NoPair
	}
	key := pairKey(w.id[i], w.id[w.next[i]])
	if key != w.lastKey {
		w.lastRank, w.lastWhole = w.table.get(w.id[i], w.id[w.next[i]])
		w.lastKey = key
	}
	return w.lastRank, w.lastWhole
}

func (w *longWord) compact() []uint32 {
	out := w.id[:0]
	for _, id := range w.id {
		if id != NoPair {
			out = append(out, id)
		}
	}
	return out
}

// heap is a binary min-heap of plain numbers; container/heap would box each.
type heap []uint64

func (h *heap) push(x uint64) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up] <= s[i] {
			return
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *heap) pop() uint64 {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		small := 2*i + 1
		if small >= last {
			return top
		}
		if small+1 < last && s[small+1] < s[small] {
			small++
		}
		if s[i] <= s[small] {
			return top
		}
		s[i], s[small] = s[small], s[i]
		i = small
	}
}
