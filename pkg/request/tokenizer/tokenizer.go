package tokenizer

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"unicode/utf8"
)

// Tokenizer encodes and decodes. It is safe for concurrent use.
type Tokenizer struct {
	raw, normalized *finder // added tokens looked for before and after normalising
	normal          normalizer
	stages          []stage
	removes         bool // stages leave parts of a text out
	model           model
	badBytes        func(ids []uint32, text string) ([]uint32, error) // encodes what is not UTF-8; nil if that is no matter
	pieces          pieces
	longest         int // bytes of the longest token
	special         map[uint32]bool
	ids             map[string]uint32 // vocabulary and added tokens, as written in the file
	prompt          frame
	config          configJSON
}

type model interface {
	// Encode appends the ids of one word to ids.
	Encode(ids []uint32, word string) []uint32
	// Drops says that some ids stand for any number of bytes.
	Drops() bool
}

// newTokenizer has no tokens and changes no text.
func newTokenizer() *Tokenizer {
	return &Tokenizer{raw: &finder{}, normalized: &finder{}, special: map[uint32]bool{}, ids: map[string]uint32{}}
}

// addToken gives a token its id and its text: text is shown within a text, and
// first at its beginning.
func (t *Tokenizer) addToken(token string, id uint32, text, first []byte) error {
	if id >= maxID {
		return fmt.Errorf("token %q has id %d, above the limit of %d", token, id, maxID)
	}
	if t.pieces.has(id) {
		return fmt.Errorf("id %d is given twice, the second time to %q", id, token)
	}
	t.ids[token] = id
	t.pieces.set(id, text, first)
	t.longest = max(t.longest, len(text))
	if t.pieces.first != nil { // the file writes blanks and endings longer than they are
		t.longest = max(t.longest, len(token))
	}
	return nil
}

// Encode returns the ids of text. With special, special tokens in the text
// become their ids; without, they are text like any other. Nothing is put
// before or after. It fails only where a pattern takes too long.
func (t *Tokenizer) Encode(text string, special bool) ([]uint32, error) {
	counts := plain
	if special {
		counts = all
	}
	return t.encode(text, counts, nil)
}

func (t *Tokenizer) encode(text string, counts counts, origin *origin) ([]uint32, error) {
	e := t.newEncoder(counts, origin)
	if err := e.text(text); err != nil {
		return nil, fmt.Errorf("encoding text: %w", err)
	}
	return e.ids, nil
}

type encoder struct {
	t      *Tokenizer
	counts counts
	origin *origin // of a text of several origins, else nil
	ids    []uint32
	words  func(piece) error // sends a piece through the stages to the model
}

func (t *Tokenizer) newEncoder(counts counts, origin *origin) *encoder {
	e := &encoder{t: t, counts: counts, origin: origin}
	done := 0
	e.words = chain(t.stages, func(p piece) error {
		e.ids = t.model.Encode(e.ids, p.text)
		if done += len(p.text); done >= yieldEvery {
			done = 0
			runtime.Gosched()
		}
		return nil
	})
	return e
}

// yieldEvery is after how many bytes of a text others have the processor, about 0.1 ms: a long text would keep
// it for 10 ms at a time from messages of requests that run.
const yieldEvery = 1 << 10

func (e *encoder) text(text string) error {
	for i, part := range e.t.raw.cut(text, e.counts) {
		if part.token != nil {
			e.ids = append(e.ids, part.token.ID)
			continue
		}
		if err := e.plain(part.text, part.at, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// plain encodes what has no added token in it before normalising and stands at
// byte at; start says that the text begins with it.
func (e *encoder) plain(text string, at int, start bool) error {
	if text == "" {
		return nil
	}
	if e.t.badBytes != nil && !utf8.ValidString(text) {
		var err error
		e.ids, err = e.t.badBytes(e.ids, text)
		return err
	}
	for i, part := range e.normalized(text, at) {
		if part.token != nil {
			e.ids = append(e.ids, part.token.ID)
			continue
		}
		if part.text == "" {
			continue
		}
		if err := e.words(piece{part.text, start && i == 0}); err != nil {
			return err
		}
	}
	return nil
}

// Decode returns the text of ids, with U+FFFD for bytes that are not UTF-8.
// Unknown ids are left out, as are special tokens with skipSpecial.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	return lossy(t.DecodeBytes(ids, skipSpecial), t.pieces.bytewise)
}

// DecodeBytes is Decode before bytes are made text.
func (t *Tokenizer) DecodeBytes(ids []uint32, skipSpecial bool) []byte {
	var b bytes.Buffer
	begun := false
	for _, id := range ids {
		text := t.tokenBytes(id, skipSpecial, &begun)
		b.Write(text)
	}
	return b.Bytes()
}

// tokenBytes returns the text of the next id; begun says that there were some before,
// and is kept. The text must not be changed by the caller.
func (t *Tokenizer) tokenBytes(id uint32, skipSpecial bool, begun *bool) []byte {
	if skipSpecial && t.special[id] {
		return nil
	}
	text := t.pieces.of(id, *begun)
	*begun = *begun || len(t.pieces.of(id, true)) > 0
	return text
}

// Vocab returns one more than the highest id, added tokens included.
func (t *Tokenizer) Vocab() int { return len(t.pieces.bytes) }

// MaxTokenBytes returns the most bytes of a text that one id stands for; 0 if there
// is no such bound, because some bytes or spaces of a text leave no id.
func (t *Tokenizer) MaxTokenBytes() (most int) {
	if t.removes || t.model.Drops() || t.raw.strips() || t.normalized.strips() {
		return 0
	}
	return t.longest * t.normal.shrink()
}

// Has reports whether id is a token's.
func (t *Tokenizer) Has(id uint32) bool { return t.pieces.has(id) }

// ID returns the id of a token as the tokenizer's file writes it, such as
// "<|endoftext|>".
func (t *Tokenizer) ID(token string) (uint32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Bytes returns a copy of the bytes of one token, nil for unknown ids.
func (t *Tokenizer) Bytes(id uint32) []byte { return slices.Clone(t.pieces.of(id, true)) }

// AnswerBytes returns the bytes that a token adds to an answer, as its first token or a later one;
// none if it is special. They are not to be changed.
func (t *Tokenizer) AnswerBytes(id uint32, first bool) []byte {
	if t.special[id] {
		return nil
	}
	return t.pieces.of(id, !first)
}
