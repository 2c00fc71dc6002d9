package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/request/tokenizer/words"
)

// visibleSpace is how SentencePiece writes a blank in its pieces.
const visibleSpace = "▁"

// openSP makes a tokenizer of a SentencePiece file. Without special, control
// pieces in a text are text, as in SentencePiece; pieces that the user defined
// are always found.
func openSP(data []byte) (*Tokenizer, error) {
	m, err := parseSP(data)
	if err != nil {
		return nil, fmt.Errorf("reading a SentencePiece model: %w", err)
	}
	t := newTokenizer()
	t.pieces.bytewise = true
	if m.dummyPrefix {
		t.pieces.first = [][]byte{}
	}
	t.normal = m.normalizer()
	if err := t.fillFromSP(m); err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	if t.model, err = m.build(t.ids); err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	return t, nil
}

// normalizer makes blanks visible and puts one before the text. What is not
// UTF-8 becomes U+FFFD, byte by byte.
func (m *spModel) normalizer() normalizer {
	prefix := ""
	if m.dummyPrefix {
		prefix = visibleSpace
	}
	return normalizer{{func(s string) string {
		if !utf8.ValidString(s) {
			s = string([]rune(s))
		}
		return prefix + strings.ReplaceAll(s, " ", visibleSpace)
	}, 1}}
}

// fillFromSP takes the pieces over: an id is a piece's place.
func (t *Tokenizer) fillFromSP(m *spModel) error {
	for i, p := range m.pieces {
		id := uint32(i)
		text, first, err := m.text(p)
		if err == nil {
			err = t.addToken(p.text, id, text, first)
		}
		if err != nil {
			return fmt.Errorf("piece %d: %w", i, err)
		}
		switch p.kind {
		case spControl:
			t.special[id] = true
			t.raw.add(p.text, &addedToken{ID: id, Content: p.text, Special: true})
		case spUnknown:
			t.special[id] = true
		case spUserDefined:
			t.normalized.add(p.text, &addedToken{ID: id, Content: p.text})
		}
	}
	t.raw.sort()
	t.normalized.sort()
	return nil
}

// text returns what a piece stands for. Control pieces have their own text, which
// readers of an answer leave out.
func (m *spModel) text(p spPiece) (text, first []byte, err error) {
	switch p.kind {
	case spByte:
		b, ok := byteOfName(p.text)
		if !ok {
			return nil, nil, fmt.Errorf("%q is of type BYTE but is none", p.text)
		}
		return []byte{b}, []byte{b}, nil
	case spUnknown:
		return []byte(m.unkSurface), []byte(m.unkSurface), nil
	case spControl:
		return []byte(p.text), []byte(p.text), nil
	}
	text = []byte(strings.ReplaceAll(p.text, visibleSpace, " "))
	first = []byte(strings.ReplaceAll(strings.TrimPrefix(p.text, visibleSpace), visibleSpace, " "))
	return text, first, nil
}

// build makes the merger: any two neighbours join that make a piece, the one
// with the highest score first.
func (m *spModel) build(ids map[string]uint32) (*words.BPE, error) {
	normal := map[string]uint32{}
	chars := map[rune]uint32{}
	for i, p := range m.pieces {
		if p.kind != spNormal {
			continue
		}
		normal[p.text] = uint32(i)
		if r, n := utf8.DecodeRuneInString(p.text); n == len(p.text) {
			chars[r] = uint32(i)
		}
	}
	if err := checkChars(normal, chars); err != nil {
		return nil, err
	}
	a, err := m.alphabet(ids, chars)
	if err != nil {
		return nil, err
	}
	b := words.NewBPE(a, m.pairs(normal), nil)
	b.CutBetweenTokens(a, maps.Keys(normal))
	return b, nil
}

// checkChars refuses pieces of characters that are no pieces: those could not
// be reached by joining pieces.
func checkChars(normal map[string]uint32, chars map[rune]uint32) error {
	for text := range normal {
		if !utf8.ValidString(text) {
			return fmt.Errorf("piece %q is not UTF-8", text)
		}
		for _, r := range text {
			if _, ok := chars[r]; !ok {
				return fmt.Errorf("piece %q has character %q, which is no piece: that is not supported", text, r)
			}
		}
	}
	return nil
}

func (m *spModel) alphabet(ids map[string]uint32, chars map[rune]uint32) (a *words.RuneAlphabet, err error) {
	a = words.NewRuneAlphabet(chars)
	a.Fuse = true
	for i, p := range m.pieces {
		if p.kind == spUnknown {
			a.Unk = uint32(i)
		}
	}
	if m.byteFallback {
		a.Fallback, err = fallbackBytes(ids)
	} else if a.Unk == words.NoPair {
		err = errors.New("it has no piece of type UNKNOWN")
	}
	return a, err
}

// pairs returns all that make a normal piece. Equal scores are equal ranks.
func (m *spModel) pairs(normal map[string]uint32) *words.Pairs {
	rank := m.ranks()
	pairs := words.NewPairs(2 * len(normal))
	var at []int
	for text, id := range normal {
		at = at[:0]
		for i := range text {
			if i > 0 {
				at = append(at, i)
			}
		}
		pairs.AddSplits(text, rank[m.pieces[id].score], id, at, func(part string) (uint32, bool) {
			id, ok := normal[part]
			return id, ok
		})
	}
	return pairs
}

// ranks numbers the scores, the highest first.
func (m *spModel) ranks() map[float32]uint32 {
	scores := make([]float32, 0, len(m.pieces))
	for _, p := range m.pieces {
		scores = append(scores, p.score)
	}
	slices.SortFunc(scores, func(a, b float32) int { return cmp.Compare(b, a) })
	rank := make(map[float32]uint32, len(scores))
	for i, s := range slices.Compact(scores) {
		rank[s] = uint32(i)
	}
	return rank
}
