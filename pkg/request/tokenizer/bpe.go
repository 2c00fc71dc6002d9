package tokenizer

import (
	"math"
	"slices"
	"sync"
)

const (
	noID = math.MaxUint32
	// shortWord is up to how many symbols a word is merged by looking at all
	// pairs each time; longer ones would be quadratic, and longword.go merges them.
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

// drops says that some bytes leave no id.
func (m *bpe) drops() bool { return m.unk == noID && slices.Contains(m.byteID[:], noID) }

func (m *bpe) merge(word string) []uint32 {
	ids := m.symbols(word)
	if len(ids) <= shortWord {
		return m.mergeShort(ids)
	}
	return newLongWord(m, ids).merge()
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
