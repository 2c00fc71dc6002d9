package grammar

import (
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
	return &Cursor{set: s, follower: f, at: f.Begin()}, nil
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
	begun    bool
}

// Over says whether the answer may end here.
func (c *Cursor) Over() bool { return c.at != nil && c.at.Over() }

// Read goes on by a token of these bytes.
func (c *Cursor) Read(text []byte) {
	if c.at != nil {
		c.at = c.follower.Read(c.at, text)
	}
	c.begun = true
}

// Mask has a bit for each token that may come next, ends aside. It is not to be changed.
func (c *Cursor) Mask() []uint64 {
	switch {
	case c.at == nil:
		return nil
	case !c.begun && c.follower.first != nil:
		return c.follower.first.Mask(c.follower.first.Begin())
	}
	return c.follower.Mask(c.at)
}
