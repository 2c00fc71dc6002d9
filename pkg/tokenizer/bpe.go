package tokenizer

import (
	"math"
	"sync"
)

const (
	noID = math.MaxUint32
	// shortWord is up to how many symbols a word is merged by looking at all
	// pairs each time, which beats a heap; longer ones would be quadratic.
	shortWord = 48
	// A word of up to cachedWord bytes is kept, cacheWords of them.
	cachedWord, cacheWords = 64, 1 << 16
)

// merge is what two adjacent symbols become, and when: lower ranks first.
type merge struct{ rank, id uint32 }

// bpe merges the bytes of words.
type bpe struct {
	byteID       [256]uint32 // noID where the vocabulary lacks the byte
	unk          uint32      // for those bytes; noID drops them, as Hugging Face does
	merges       map[uint64]merge
	words        map[string]uint32 // by their bytes; nil unless ignore_merges
	mu           sync.RWMutex
	cache        map[string][]uint32
	cacheEntries int // limit, so that tests can make it small
}

func pairKey(a, b uint32) uint64 { return uint64(a)<<32 | uint64(b) }

// encode appends the ids of one word to ids.
func (m *bpe) encode(ids []uint32, word string) []uint32 {
	if id, ok := m.words[word]; ok {
		return append(ids, id)
	}
	if len(word) > cachedWord {
		return append(ids, m.merge(word)...)
	}
	m.mu.RLock()
	kept, ok := m.cache[word]
	m.mu.RUnlock()
	if !ok {
		kept = m.merge(word)
		m.keep(word, kept)
	}
	return append(ids, kept...)
}

// keep caches a word, starting over when the cache is full: that is cheap, and
// common words are back at once.
func (m *bpe) keep(word string, ids []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache == nil || len(m.cache) >= m.cacheEntries {
		m.cache = map[string][]uint32{}
	}
	m.cache[string([]byte(word))] = ids // a copy: word is a part of a whole text
}

// symbols returns the ids of the word's bytes.
func (m *bpe) symbols(word string) []uint32 {
	ids := make([]uint32, 0, len(word))
	for i := range len(word) {
		id := m.byteID[word[i]]
		if id == noID {
			id = m.unk
		}
		if id != noID {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *bpe) merge(word string) []uint32 {
	ids := m.symbols(word)
	if len(ids) <= shortWord {
		return m.mergeShort(ids)
	}
	return m.mergeLong(ids)
}

// rank is the rank of a pair, noID if it does not merge.
func (m *bpe) rank(a, b uint32) uint32 {
	if x, ok := m.merges[pairKey(a, b)]; ok {
		return x.rank
	}
	return noID
}

// mergeShort merges in place the leftmost pair of lowest rank until none is
// left; ranks[i] is that of ids[i] and ids[i+1].
func (m *bpe) mergeShort(ids []uint32) []uint32 {
	var space [shortWord]uint32
	ranks := space[:max(len(ids)-1, 0)]
	for i := range ranks {
		ranks[i] = m.rank(ids[i], ids[i+1])
	}
	for {
		at, best := 0, uint32(noID)
		for i, r := range ranks {
			if r < best {
				at, best = i, r
			}
		}
		if best == noID {
			return ids
		}
		ids[at] = m.merges[pairKey(ids[at], ids[at+1])].id
		ids = append(ids[:at+1], ids[at+2:]...)
		ranks = append(ranks[:at], ranks[at+1:]...)
		if at > 0 {
			ranks[at-1] = m.rank(ids[at-1], ids[at])
		}
		if at < len(ranks) {
			ranks[at] = m.rank(ids[at], ids[at+1])
		}
	}
}

// chain is a word under merging as a linked list: next and prev are indices,
// -1 at the ends, and a symbol that was merged into its left neighbour has
// id noID.
type chain struct {
	id         []uint32
	next, prev []int32
}

func newChain(ids []uint32) *chain {
	c := &chain{id: ids, next: make([]int32, len(ids)), prev: make([]int32, len(ids))}
	for i := range ids {
		c.next[i], c.prev[i] = int32(i+1), int32(i-1)
	}
	c.next[len(ids)-1] = -1
	return c
}

// absorb makes symbol i swallow its right neighbour and become id.
func (c *chain) absorb(i int32, id uint32) {
	j := c.next[i]
	c.id[i], c.id[j] = id, noID
	c.next[i] = c.next[j]
	if k := c.next[i]; k >= 0 {
		c.prev[k] = i
	}
}

// compact drops the swallowed symbols.
func (c *chain) compact() []uint32 {
	out := c.id[:0]
	for _, id := range c.id {
		if id != noID {
			out = append(out, id)
		}
	}
	return out
}

// mergeLong does what mergeShort does in n·log n: a heap holds rank and
// position of pairs, and entries that later merges made stale are skipped.
func (m *bpe) mergeLong(ids []uint32) []uint32 {
	c := newChain(ids)
	var h heap
	push := func(i int32) {
		if i < 0 || c.next[i] < 0 {
			return
		}
		if r := m.rank(c.id[i], c.id[c.next[i]]); r != noID {
			h.push(uint64(r)<<32 | uint64(i))
		}
	}
	for i := range ids {
		push(int32(i))
	}
	for len(h) > 0 {
		top := h.pop()
		i := int32(uint32(top))
		if c.id[i] == noID || c.next[i] < 0 {
			continue
		}
		x, ok := m.merges[pairKey(c.id[i], c.id[c.next[i]])]
		if !ok || uint64(x.rank) != top>>32 {
			continue
		}
		c.absorb(i, x.id)
		push(c.prev[i])
		push(i)
	}
	return c.compact()
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
