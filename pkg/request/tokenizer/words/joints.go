package words

import (
	"iter"
	"unicode/utf8"
)

// joints are the pairs of characters that stand side by side in some token. No
// token reaches across any other pair, so a text may be cut there: what is left
// and right of it merges alike, whatever the order of ranks. Models that do not
// split texts into words get short words in this way, which can be cached.
type joints struct {
	alphabet *RuneAlphabet
	ascii    [utf8.RuneSelf][2]uint64 // by the first character, a bit for the second
	other    map[uint64]struct{}
	fuses    bool // unknown characters become one symbol, so a run of them stays whole
}

// CutBetweenTokens lets Encode cut words where no token reaches across. tokens
// are all that pairs can make, of the alphabet a.
func (m *BPE) CutBetweenTokens(a *RuneAlphabet, tokens iter.Seq[string]) {
	j := &joints{alphabet: a, other: map[uint64]struct{}{}, fuses: a.Fallback == nil && a.Fuse}
	for token := range tokens {
		j.add(token)
	}
	m.joints = j
}

func (j *joints) add(token string) {
	before := rune(-1)
	for _, r := range token {
		if before >= 0 {
			j.join(before, r)
		}
		before = r
	}
}

func (j *joints) join(a, b rune) {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		j.ascii[a][b/64] |= 1 << (b % 64)
		return
	}
	j.other[uint64(a)<<32|uint64(b)] = struct{}{}
}

func (j *joints) joined(a, b rune) bool {
	if j.side(a, b) {
		return true
	}
	return j.fuses && j.alphabet.unknown(a) && j.alphabet.unknown(b)
}

// side says that some token has a and then b.
func (j *joints) side(a, b rune) bool {
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		return j.ascii[a][b/64]&(1<<(b%64)) != 0
	}
	_, ok := j.other[uint64(a)<<32|uint64(b)]
	return ok
}

// end returns where the first part of text ends.
func (j *joints) end(text string) int {
	before, n := utf8.DecodeRuneInString(text)
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if !j.joined(before, r) {
			break
		}
		before, n = r, n+size
	}
	return n
}
