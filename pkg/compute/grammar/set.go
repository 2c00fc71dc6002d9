package grammar

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// maxKept is how many grammars a Set keeps; the one that was asked for longest ago goes.
const maxKept = 32

// Set keeps grammars for one vocabulary. Any goroutine may use it.
type Set struct {
	vocab *pushdown.Vocabulary
	first *pushdown.Vocabulary // of an answer's first token; nil: the same

	mu    sync.Mutex
	known []*kept // the one that was asked for last behind the others
}

type kept struct {
	key  string
	made func() (*follower, error)
}

// follower follows one grammar.
type follower struct {
	*pushdown.Follower
	first *pushdown.Follower
}

// Bytes is a token's bytes in an answer, as the answer's first token or a later one. A token
// without any is never allowed.
type Bytes func(id uint32, first bool) []byte

// NewSet keeps grammars for a vocabulary of so many tokens.
func NewSet(size int, of Bytes) *Set {
	s, differs := &Set{}, false
	s.vocab = pushdown.NewVocabulary(size, func(id uint32) []byte {
		text := of(id, false)
		differs = differs || string(text) != string(of(id, true))
		return text
	})
	if differs {
		s.first = pushdown.NewVocabulary(size, func(id uint32) []byte { return of(id, true) })
	}
	return s
}

// Begin is where an answer stands that has no tokens yet.
func (s *Set) Begin(spec Spec) (*Cursor, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	f, err := s.find(spec)()
	if err != nil {
		return nil, err
	}
	at, err := f.Begin(s.vocab.PerToken())
	if err != nil {
		return nil, s.tooMuch()
	}
	return &Cursor{set: s, follower: f, at: at}, nil
}

// find is what makes a follower once, however many ask for it at a time.
func (s *Set) find(spec Spec) func() (*follower, error) {
	parts := append([]string{spec.kinds()[0], spec.JSONSchema, spec.Regex, spec.EBNF, map[bool]string{true: "compact"}[spec.Compact]}, spec.Choice...)
	for _, c := range spec.Calls {
		parts = append(parts, c.Before, c.Schema, c.After)
	}
	key := strings.Join(parts, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.known, func(k *kept) bool { return k.key == key }); i >= 0 {
		k := s.known[i]
		s.known = append(slices.Delete(s.known, i, i+1), k)
		return k.made
	}
	k := &kept{key, sync.OnceValues(func() (*follower, error) {
		g, err := Compile(spec)
		if err != nil {
			return nil, err
		}
		f := &follower{Follower: g.Follow(s.vocab)}
		f.Warm()
		if s.first != nil {
			f.first = g.Follow(s.first)
		}
		return f, nil
	})}
	if s.known = append(s.known, k); len(s.known) > maxKept {
		s.known = slices.Delete(s.known, 0, 1)
	}
	return k.made
}

// Cursor is where one answer stands.
type Cursor struct {
	set      *Set
	follower *follower
	at       *pushdown.State // nil: what was read is not of the grammar
	mask     []uint64        // of at, once it was looked for
	begun    bool
	err      error
}

// tooMuch is why nothing is known of a grammar that takes too long.
func (s *Set) tooMuch() error {
	return fmt.Errorf("finding what may come next takes more than the %d steps that a token may take, as the same text can be read in too many ways: have fewer rules and choices that begin alike",
		s.vocab.PerToken().Left)
}

// Err is why nothing is known of what may come next; nil: it is.
func (c *Cursor) Err() error { return c.err }

// Over says whether the answer may end here.
func (c *Cursor) Over() bool { return c.at != nil && c.at.Over() }

// Read goes on by a token of these bytes. It may take long.
func (c *Cursor) Read(text []byte) { c.fail(c.read(text, c.set.vocab.PerToken())) }

// Mask has a bit for each token that may come next, ends aside. It is not to be changed. It may take
// long when it is asked for first.
func (c *Cursor) Mask() []uint64 {
	c.fail(c.find(c.set.vocab.PerToken()))
	return c.mask
}

func (c *Cursor) fail(err error) {
	if err != nil {
		c.err, c.at, c.mask = c.set.tooMuch(), nil, nil
	}
}

// atOnce is what Try does at most: no more than choosing among tokens takes.
const atOnce = 1 << 12

// Try reads a token of these bytes and finds what may come next, if that takes no time to speak of. If it
// returns false, nothing was read: Read and Mask are to be called where nobody waits for them.
func (c *Cursor) Try(text []byte) bool {
	next, work := *c, &pushdown.Work{Left: atOnce, Hurried: true}
	if next.read(text, work) != nil || next.find(work) != nil {
		return false
	}
	*c = next
	return true
}

func (c *Cursor) read(text []byte, w *pushdown.Work) error {
	if c.at != nil {
		at, err := c.follower.Read(c.at, text, w)
		if err != nil {
			return err
		}
		c.at = at
	}
	c.begun, c.mask = true, nil
	return nil
}

func (c *Cursor) find(w *pushdown.Work) (err error) {
	if c.at == nil || c.mask != nil {
		return nil
	}
	f, at := c.follower.Follower, c.at
	if !c.begun && c.follower.first != nil {
		f = c.follower.first
		if at, err = f.Begin(w); err != nil {
			return err
		}
	}
	c.mask, err = f.Mask(at, w)
	return err
}
