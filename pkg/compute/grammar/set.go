package grammar

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/compute/grammar/jsonschema"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// maxKept is how many grammars a Set keeps at most, or that they were refused. The one that was asked for longest ago
// goes, and so where they have more than pushdown.MaxBytes together.
const maxKept = 1 << 10

// Set keeps grammars for one vocabulary. Any goroutine may use it.
type Set struct {
	vocab *pushdown.Vocabulary
	first *pushdown.Vocabulary // of an answer's first token; nil: the same

	most int // bytes of known

	compiling sync.Mutex // one at a time
	automata  jsonschema.Known

	mu    sync.Mutex
	known []*kept // the one that was asked for last behind the others
}

type kept struct {
	key  identity
	made func() (*follower, error)
	done atomic.Pointer[follower] // once it is made; nil for what is refused
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
	s, differs := &Set{most: pushdown.MaxBytes}, false
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
	key := spec.identity()
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.known, func(k *kept) bool { return k.key == key }); i >= 0 {
		k := s.known[i]
		s.known = append(slices.Delete(s.known, i, i+1), k)
		return k.made
	}
	k := &kept{key: key}
	k.made = sync.OnceValues(func() (*follower, error) {
		f, err := s.make(spec)
		k.done.Store(f)
		s.shed()
		return f, err
	})
	s.known = append(s.known, k)
	return k.made
}

func (s *Set) make(spec Spec) (*follower, error) {
	s.compiling.Lock()
	defer s.compiling.Unlock()
	g, err := spec.compile(&s.automata)
	if err != nil {
		return nil, err
	}
	f := &follower{Follower: g.Follow(s.vocab)}
	if s.first != nil {
		f.first = g.Follow(s.first)
	}
	return f, nil
}

// shed drops what was asked for longest ago, as long as too much is kept.
func (s *Set) shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes, keep := 0, len(s.known)
	for ; keep > 0; keep-- {
		if f := s.known[keep-1].done.Load(); f != nil {
			bytes += f.Bytes()
			if f.first != nil {
				bytes += f.first.Bytes()
			}
		}
		if bytes > s.most && keep < len(s.known) || len(s.known)-keep >= maxKept {
			break
		}
	}
	s.known = slices.Delete(s.known, 0, keep)
}

// identity is of what is asked for.
type identity [sha256.Size]byte

func (s *Spec) identity() identity {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q%q%q%q%t%t%q%q", s.kinds(), s.JSONSchema, s.Regex, s.EBNF, s.Compact, s.JSONObject, s.Choice, s.Calls)
	return identity(h.Sum(nil))
}

// Checked remembers which grammars can be kept, and why others cannot. Any goroutine may use it; nil remembers none.
type Checked struct {
	mu    sync.Mutex
	known map[identity]error
}

// Check says why a grammar cannot be kept. Of a repeat it says so at once.
func (c *Checked) Check(spec Spec) error {
	if c == nil {
		_, err := Compile(spec)
		return err
	}
	key := spec.identity()
	c.mu.Lock()
	err, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return err
	}
	if _, err = Compile(spec); err != nil {
		err = errors.New(err.Error()) // and nothing that it was made from
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKept || c.known == nil {
		c.known = map[identity]error{}
	}
	c.known[key] = err
	return err
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

// Over reports whether the answer may end here.
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
