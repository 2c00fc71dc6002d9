package words

import (
	"slices"
	"unicode/utf8"
)

// Alphabet tells the symbols that a word begins as.
type Alphabet interface {
	// Symbols appends those of word to ids.
	Symbols(ids []uint32, word string) []uint32
	// Drops says that some words have fewer symbols than characters, without
	// a bound.
	Drops() bool
}

// ByteAlphabet is the alphabet of byte-level models.
type ByteAlphabet struct {
	IDs [256]uint32 // None where the vocabulary lacks the byte
	Unk uint32      // for those bytes; None drops them
}

// Symbols returns an id for each byte of a word.
func (a *ByteAlphabet) Symbols(ids []uint32, word string) []uint32 {
	for i := range len(word) {
		id := a.IDs[word[i]]
		if id == NoPair {
			id = a.Unk
		}
		if id != NoPair {
			ids = append(ids, id)
		}
	}
	return ids
}

// Drops says that some bytes leave no symbol.
func (a *ByteAlphabet) Drops() bool { return a.Unk == NoPair && slices.Contains(a.IDs[:], NoPair) }

// RuneAlphabet is the alphabet of models whose symbols are characters.
type RuneAlphabet struct {
	IDs      map[rune]uint32
	Fallback *[256]uint32 // the bytes of other characters; nil if the model has none
	Unk      uint32       // for other characters without Fallback; None drops them
	Fuse     bool         // a run of them is one Unk
	ascii    [utf8.RuneSelf]uint32
}

// NewRuneAlphabet fills the table of ASCII.
func NewRuneAlphabet(ids map[rune]uint32) *RuneAlphabet {
	a := &RuneAlphabet{IDs: ids, Unk: NoPair}
	for r := range a.ascii {
		a.ascii[r] = NoPair
		if id, ok := ids[rune(r)]; ok {
			a.ascii[r] = id
		}
	}
	return a
}

func (a *RuneAlphabet) id(r rune) uint32 {
	if r < utf8.RuneSelf {
		return a.ascii[r]
	}
	if id, ok := a.IDs[r]; ok {
		return id
	}
	return NoPair
}

// Symbols returns an id for each character of a word, or for each of its bytes. A byte that is not
// UTF-8 is never a character of the alphabet.
func (a *RuneAlphabet) Symbols(ids []uint32, word string) []uint32 {
	fused := false
	for i := 0; i < len(word); {
		r, n := utf8.DecodeRuneInString(word[i:])
		id := uint32(NoPair)
		if r != utf8.RuneError || n > 1 {
			id = a.id(r)
		}
		unknown := false
		switch {
		case id != NoPair:
			ids = append(ids, id)
		case a.Fallback != nil:
			for _, b := range []byte(word[i : i+n]) {
				ids = append(ids, a.Fallback[b])
			}
		case a.Unk != NoPair:
			if unknown = true; !fused || !a.Fuse {
				ids = append(ids, a.Unk)
			}
		}
		fused = unknown
		i += n
	}
	return ids
}

// Drops says that unknown characters are dropped or fused.
func (a *RuneAlphabet) Drops() bool { return a.Fallback == nil && (a.Unk == NoPair || a.Fuse) }

// unknown says that a character has no symbol of its own.
func (a *RuneAlphabet) unknown(r rune) bool { return a.id(r) == NoPair }
