package words

// shortWord is up to how many symbols a word is merged by looking at all
// pairs each time; longer ones would be quadratic, and longword.go merges them.
const shortWord = 48

// BPE is byte pair encoding: a word is taken apart into symbols, and
// the adjacent pair of lowest rank is joined until none is left, of equal ranks
// the leftmost first.
//
// Source: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words
// with Subword Units", section 3.2. Ranks and ids are those of the tokenizer's
// file; time is linear in the length of a word. It is safe for concurrent use.
type BPE struct {
	alphabet Alphabet
	pairs    *Pairs
	words    map[string]uint32
	joints   *joints
	cache    *cache
}

// NewBPE makes an encoder. words, which may be nil, are one token as a whole
// whatever the pairs say.
func NewBPE(a Alphabet, pairs *Pairs, words map[string]uint32) *BPE {
	return &BPE{alphabet: a, pairs: pairs, words: words, cache: newCache(cacheSlots)}
}

// Drops says that the ids of some words stand for any number of bytes.
func (m *BPE) Drops() bool { return m.alphabet.Drops() }

// Encode appends the ids of one word to ids.
func (m *BPE) Encode(ids []uint32, word string) []uint32 {
	if m.joints == nil {
		return m.encode(ids, word)
	}
	for word != "" {
		n := m.joints.end(word)
		ids = m.encode(ids, word[:n])
		word = word[n:]
	}
	return ids
}

func (m *BPE) encode(ids []uint32, word string) []uint32 {
	if len(word) > cachedBytes {
		return m.merge(ids, word)
	}
	slot := m.cache.slot(word)
	if kept := slot.Load(); kept != nil && kept.word == word {
		return append(ids, kept.ids...)
	}
	fresh := m.merge(nil, word)
	m.cache.keep(slot, word, fresh)
	return append(ids, fresh...)
}

// merge appends the ids of a word that is not cached.
func (m *BPE) merge(ids []uint32, word string) []uint32 {
	if id, ok := m.words[word]; ok {
		return append(ids, id)
	}
	var space [2 * shortWord]uint32
	symbols := m.alphabet.Symbols(space[:0], word)
	if len(symbols) <= shortWord {
		return append(ids, m.mergeShort(symbols)...)
	}
	return append(ids, newLongWord(m.pairs, symbols).merge()...)
}

// mergeShort merges in place the leftmost pair of lowest rank until none is
// left; ranks[i] is that of ids[i] and ids[i+1], and whole[i] what they become.
func (m *BPE) mergeShort(ids []uint32) []uint32 {
	var ranks, whole [shortWord]uint32
	n := len(ids) // symbols that are left
	for i := range n - 1 {
		ranks[i], whole[i] = m.pairs.get(ids[i], ids[i+1])
	}
	for n > 1 {
		at, best := 0, uint32(NoPair)
		for i, r := range ranks[:n-1] {
			if r < best {
				at, best = i, r
			}
		}
		if best == NoPair {
			break
		}
		ids[at] = whole[at]
		copy(ids[at+1:n-1], ids[at+2:n])
		copy(ranks[at:n-2], ranks[at+1:n-1])
		copy(whole[at:n-2], whole[at+1:n-1])
		n--
		if at > 0 {
			ranks[at-1], whole[at-1] = m.pairs.get(ids[at-1], ids[at])
		}
		if at < n-1 {
			ranks[at], whole[at] = m.pairs.get(ids[at], ids[at+1])
		}
	}
	return ids[:n]
}
