package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// wordPiece encodes a word as the longest token that it begins with, then the
// longest one that goes on, and so forth; a word that cannot be is unknown.
//
// Source: WordpieceTokenizer in Google's tokenization.py for BERT.
type wordPiece struct {
	first, more map[string]uint32 // tokens, those that go on without their prefix
	unk         uint32
	maxChars    int // of a word
	longest     int // bytes of the longest token
}

func newWordPiece(vocab map[string]uint32, prefix string, unk uint32, maxChars int) *wordPiece {
	w := &wordPiece{first: vocab, more: map[string]uint32{}, unk: unk, maxChars: maxChars}
	for token, id := range vocab {
		if tail, ok := strings.CutPrefix(token, prefix); ok {
			w.more[tail] = id
		}
		w.longest = max(w.longest, len(token))
	}
	return w
}

// Drops is true: a word of any bytes may be one unknown token.
func (w *wordPiece) Drops() bool { return true }

// Encode looks at each place at most as often as the longest token has bytes.
func (w *wordPiece) Encode(ids []uint32, word string) []uint32 {
	if len(word) > w.maxChars && utf8.RuneCountInString(word) > w.maxChars {
		return append(ids, w.unk)
	}
	begun, table := len(ids), w.first
	for word != "" {
		id, n := w.longestOf(table, word)
		if n == 0 {
			return append(ids[:begun], w.unk)
		}
		ids, word, table = append(ids, id), word[n:], w.more
	}
	return ids
}

// longestOf returns the longest token of a table that word begins with; n is 0 if
// there is none.
func (w *wordPiece) longestOf(table map[string]uint32, word string) (id uint32, n int) {
	for n = min(len(word), w.longest); n > 0; n-- {
		if n < len(word) && !utf8.RuneStart(word[n]) {
			continue
		}
		if id, ok := table[word[:n]]; ok {
			return id, n
		}
	}
	return 0, 0
}
