package tokenizer

// Detokenizer turns a stream of ids into a stream of text. Its pieces joined
// are what Decode makes of all ids. It is not safe for concurrent use.
type Detokenizer struct {
	t           *Tokenizer
	skipSpecial bool
	begun       bool   // some text was there
	rest        []byte // may still become a character; at most three bytes
}

// NewDetokenizer begins a text; with skipSpecial, special tokens have none.
func (t *Tokenizer) NewDetokenizer(skipSpecial bool) *Detokenizer {
	return &Detokenizer{t: t, skipSpecial: skipSpecial}
}

// Push takes the next id and returns the text that became complete: never a
// part of a character, and nothing while one is incomplete.
func (d *Detokenizer) Push(id uint32) string {
	next := d.t.tokenBytes(id, d.skipSpecial, &d.begun)
	text, rest := decided(append(d.rest, next...), d.t.pieces.bytewise)
	d.rest = append([]byte(nil), rest...)
	return text
}

// Flush ends the text and returns what is left: U+FFFD if it ends within a
// character, else nothing.
func (d *Detokenizer) Flush() string {
	rest := d.rest
	d.rest = nil
	return lossy(rest, d.t.pieces.bytewise)
}

// Piece returns a copy of the bytes of one id, whatever is before it; nil for unknown ids.
func (d *Detokenizer) Piece(id uint32) []byte { return d.t.Bytes(id) }
