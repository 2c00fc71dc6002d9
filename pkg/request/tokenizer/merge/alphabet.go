package merge

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

// Bytes is the alphabet of byte-level models.
type Bytes struct {
	IDs [256]uint32 // None where the vocabulary lacks the byte
	Unk uint32      // for those bytes; None drops them
}

// Symbols is one a byte.
func (a *Bytes) Symbols(ids []uint32, word string) []uint32 {
	for i := range len(word) {
		id := a.IDs[word[i]]
		if id == None {
			id = a.Unk
		}
		if id != None {
			ids = append(ids, id)
		}
	}
	return ids
}

// Drops says that some bytes leave no symbol.
func (a *Bytes) Drops() bool { return a.Unk == None && slices.Contains(a.IDs[:], None) }

// Runes is the alphabet of models whose symbols are characters.
type Runes struct {
	IDs      map[rune]uint32
	Fallback *[256]uint32 // the bytes of other characters; nil if the model has none
	Unk      uint32       // for other characters without Fallback; None drops them
	Fuse     bool         // a run of them is one Unk
	ascii    [utf8.RuneSelf]uint32
}

// NewRunes fills the table of ASCII.
func NewRunes(ids map[rune]uint32) *Runes {
	a := &Runes{IDs: ids, Unk: None}
	for r := range a.ascii {
		a.ascii[r] = None
		if id, ok := ids[rune(r)]; ok {
			a.ascii[r] = id
		}
	}
	return a
}

func (a *Runes) id(r rune) uint32 {
	if r < utf8.RuneSelf {
		return a.ascii[r]
	}
	if id, ok := a.IDs[r]; ok {
		return id
	}
	return None
}

// Symbols is one a character, or one for each of its bytes. A byte that is not
// UTF-8 is never a character of the alphabet.
func (a *Runes) Symbols(ids []uint32, word string) []uint32 {
	fused := false
	for i := 0; i < len(word); {
		r, n := utf8.DecodeRuneInString(word[i:])
		id := uint32(None)
		if r != utf8.RuneError || n > 1 {
			id = a.id(r)
		}
		unknown := false
		switch {
		case id != None:
			ids = append(ids, id)
		case a.Fallback != nil:
			for _, b := range []byte(word[i : i+n]) {
				ids = append(ids, a.Fallback[b])
			}
		case a.Unk != None:
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
func (a *Runes) Drops() bool { return a.Fallback == nil && (a.Unk == None || a.Fuse) }

// unknown says that a character has no symbol of its own.
func (a *Runes) unknown(r rune) bool { return a.id(r) == None }
