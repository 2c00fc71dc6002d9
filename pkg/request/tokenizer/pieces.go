package tokenizer

import "fmt"

type pieces struct {
	bytes [][]byte // of each id; nil where there is none
	first [][]byte // of each id as the first of a text; nil if it makes no difference
	// bytewise says that each byte which is not UTF-8 is shown as one U+FFFD, as
	// SentencePiece does, and not the longest run that could begin a character.
	bytewise bool
}

// maxID bounds token ids, and sparseIDs how many of them may have no token for
// each one that has: a table of all ids is allocated.
const (
	maxID     = 1 << 24
	sparseIDs = 16
)

// maxToken bounds the bytes of a token where all places at which it can be cut in
// two are tried. Published ones have some hundred at most.
const maxToken = 1 << 10

// checkIDs refuses ids whose tables would be out of proportion to the file.
func checkIDs(highest uint32, tokens int) error {
	if highest >= maxID || int(highest) > sparseIDs*tokens+1<<16 {
		return fmt.Errorf("id %d is above the limit for %d tokens", highest, tokens)
	}
	return nil
}

// of returns the text of an id; it must not be changed.
func (p *pieces) of(id uint32, begun bool) []byte {
	if int64(id) >= int64(len(p.bytes)) {
		return nil
	}
	if !begun && p.first != nil {
		return p.first[id]
	}
	return p.bytes[id]
}

// set gives an id its text, and the one it has at the beginning of a text.
func (p *pieces) set(id uint32, text, first []byte) {
	if n := int(id) + 1; n > len(p.bytes) {
		p.bytes = append(p.bytes, make([][]byte, n-len(p.bytes))...)
		if p.first != nil {
			p.first = append(p.first, make([][]byte, n-len(p.first))...)
		}
	}
	p.bytes[id] = append([]byte{}, text...) // not nil, even if empty
	if p.first != nil {
		p.first[id] = append([]byte{}, first...)
	}
}

func (p *pieces) has(id uint32) bool {
	return int64(id) < int64(len(p.bytes)) && p.bytes[id] != nil
}
