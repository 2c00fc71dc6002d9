package tokenizer

import (
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/request/tokenizer/words"
)

// build makes what encodes words. byteLevel says that symbols are bytes.
func (m *modelJSON) build(byteLevel bool) (model, error) {
	if len(m.Vocab) == 0 {
		return nil, fmt.Errorf("model: vocab is missing or empty")
	}
	switch m.Type {
	case "BPE", "":
		return m.buildBPE(byteLevel)
	case "WordPiece":
		return m.buildWordPiece()
	}
	return nil, fmt.Errorf("model: type %q is not supported; supported are BPE and WordPiece", m.Type)
}

// checkBPE refuses features that the models of this kind do not have.
func (m *modelJSON) checkBPE() error {
	nonEmpty := func(s *string) bool { return s != nil && *s != "" }
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model: dropout %v is not supported: it makes ids random", *m.Dropout)
	case nonEmpty(m.Prefix):
		return fmt.Errorf("model: continuing_subword_prefix %q is not supported", *m.Prefix)
	case nonEmpty(m.Suffix):
		return fmt.Errorf("model: end_of_word_suffix %q is not supported", *m.Suffix)
	}
	return nil
}

func (m *modelJSON) buildBPE(byteLevel bool) (model, error) {
	if err := m.checkBPE(); err != nil {
		return nil, err
	}
	alphabet, err := m.alphabet(byteLevel)
	if err != nil {
		return nil, err
	}
	pairs := words.NewPairs(len(m.Merges))
	for rank, pair := range m.Merges {
		if err := m.addMerge(pairs, uint32(rank), pair); err != nil {
			return nil, err
		}
	}
	var whole map[string]uint32
	if m.IgnoreMerges {
		whole = m.wholeWords(byteLevel)
	}
	b := words.NewBPE(alphabet, pairs, whole)
	if runes, ok := alphabet.(*words.RuneAlphabet); ok && !m.IgnoreMerges { // there a whole word counts, not its parts
		b.CutBetweenTokens(runes, maps.Keys(m.Vocab))
	}
	return b, nil
}

// unk returns the id of the unknown token, merge.None if there is none.
func (m *modelJSON) unk() uint32 {
	if m.Unk != nil {
		if id, ok := m.Vocab[*m.Unk]; ok {
			return id
		}
	}
	return words.NoPair
}

func (m *modelJSON) alphabet(byteLevel bool) (words.Alphabet, error) {
	if byteLevel {
		return m.bytes()
	}
	ids := map[rune]uint32{}
	for token, id := range m.Vocab {
		if r, n := utf8.DecodeRuneInString(token); n == len(token) && n > 0 {
			ids[r] = id
		}
	}
	a := words.NewRuneAlphabet(ids)
	a.Unk, a.Fuse = m.unk(), m.FuseUnk
	if m.ByteFallback {
		var err error
		a.Fallback, err = fallbackBytes(m.Vocab)
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
	}
	return a, nil
}

// fallbackBytes returns the tokens of all bytes, <0x00> to <0xFF>.
func fallbackBytes(vocab map[string]uint32) (*[256]uint32, error) {
	ids := new([256]uint32)
	for b := range ids {
		id, ok := vocab[nameOfByte(b)]
		if !ok {
			return nil, fmt.Errorf("byte_fallback: the vocabulary lacks %s", nameOfByte(b))
		}
		ids[b] = id
	}
	return ids, nil
}

// bytes returns the alphabet of byte-level models.
func (m *modelJSON) bytes() (*words.ByteAlphabet, error) {
	if m.ByteFallback {
		return nil, fmt.Errorf("model: byte_fallback in a byte-level model is not supported")
	}
	a := &words.ByteAlphabet{Unk: m.unk()}
	for x, c := range charOfByte {
		id, ok := m.Vocab[string(c)]
		if !ok {
			id = words.NoPair
		}
		if !ok && a.Unk != words.NoPair && m.FuseUnk {
			return nil, fmt.Errorf("model: vocab lacks byte %#02x, and fuse_unk is not supported", x)
		}
		a.IDs[x] = id
	}
	return a, nil
}

func (m *modelJSON) addMerge(pairs *words.Pairs, rank uint32, pair pairJSON) error {
	left, ok1 := m.Vocab[pair[0]]
	right, ok2 := m.Vocab[pair[1]]
	whole, ok3 := m.Vocab[pair[0]+pair[1]]
	if !ok1 || !ok2 || !ok3 {
		return fmt.Errorf("model: merge %d, %q and %q: one of them or both joined is not in vocab", rank, pair[0], pair[1])
	}
	if _, isByte := byteOfName(pair[0]); isByte && m.ByteFallback {
		return fmt.Errorf("model: merge %d, %q and %q, joins a byte, which is not supported", rank, pair[0], pair[1])
	}
	pairs.Add(left, right, rank, whole)
	return nil
}

// wholeWords returns the vocabulary by what words are made of.
func (m *modelJSON) wholeWords(byteLevel bool) map[string]uint32 {
	if !byteLevel {
		return m.Vocab
	}
	words := make(map[string]uint32, len(m.Vocab))
	for token, id := range m.Vocab {
		if b, mapped := bytesOf(token); mapped {
			words[string(b)] = id
		}
	}
	return words
}

// bertMaxChars is how long words are at most where the file does not say it;
// wordLimit bounds what it says: a word takes time by the square of its length.
const bertMaxChars, wordLimit = 100, 1000

func (m *modelJSON) buildWordPiece() (model, error) {
	unk := m.unk()
	if unk == words.NoPair {
		return nil, fmt.Errorf("model: a WordPiece has no unk_token in its vocab")
	}
	prefix, limit := "##", bertMaxChars
	if m.Prefix != nil {
		prefix = *m.Prefix
	}
	if m.MaxChars != nil {
		limit = *m.MaxChars
	}
	if limit > wordLimit {
		return nil, fmt.Errorf("model: max_input_chars_per_word %d is above %d", limit, wordLimit)
	}
	return newWordPiece(m.Vocab, prefix, unk, limit), nil
}
