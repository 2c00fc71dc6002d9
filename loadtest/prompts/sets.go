package prompts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/internal/textfile"
)

// Texts say which texts prompts are made of, and how.
type Texts struct {
	// Files are FILE or NAME=FILE; those of one name are one set, each with as large a part of it. What
	// one of them lacks the next one gives.
	Files []string
	// Lines makes each line of a text a document; those between signs of equality are headings.
	Lines bool
	Chars int // of a prompt, at most
	// Past and Test are the prompts of a set, at most.
	Past, Test int
	Seed       uint64
}

// Set are prompts of some texts. No document has prompts of the past and of the test.
type Set struct {
	Name       string
	Past, Test []string
}

// Check says what is wrong.
func (t *Texts) Check() error {
	switch {
	case len(t.Files) == 0:
		return errors.New("no prompts are named; name a file of texts")
	case t.Chars < 1 || t.Chars > mostChars:
		return fmt.Errorf("a prompt is to have %d characters; it must be 1 to %d", t.Chars, mostChars)
	case t.Past < 1 || t.Test < 0 || t.Past > mostPrompts || t.Test > mostPrompts:
		return fmt.Errorf("%d prompts of the past and %d others are asked for; there must be 1 of the past or more, and %d of each at most", t.Past, t.Test, mostPrompts)
	}
	return nil
}

const (
	mostChars   = 1 << 20
	mostPrompts = 1 << 20
)

// Sets reads all texts.
func (t *Texts) Sets() (sets []Set, err error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	files := map[string][]string{}
	for _, text := range t.Files {
		name, path := textfile.SplitName(text)
		if len(files[name]) == 0 {
			sets = append(sets, Set{Name: name})
		}
		files[name] = append(files[name], path)
	}
	for i := range sets {
		s := &sets[i]
		of, past, test := files[s.Name], 0, 0
		for j, path := range of {
			past, test = past+part(t.Past, len(of), j), test+part(t.Test, len(of), j)
			if err := t.read(s, path, past-len(s.Past), test-len(s.Test)); err != nil {
				return nil, err
			}
		}
		if len(s.Past) == 0 || t.Test > 0 && len(s.Test) == 0 {
			return nil, fmt.Errorf("%w: set %s has %d prompts of the past and %d others; name longer texts, or ask for fewer prompts", textfile.ErrTexts, s.Name, len(s.Past), len(s.Test))
		}
	}
	return sets, nil
}

// part is how many of n the part j of so many has.
func part(n, parts, j int) int { return n*(j+1)/parts - n*j/parts }

// read adds prompts of a file's documents to a set, those of the test first.
func (t *Texts) read(s *Set, path string, past, test int) error {
	documents, err := textfile.Read(path)
	if err != nil {
		return err
	}
	if t.Lines {
		documents = lines(documents)
	}
	r := rand.New(rand.NewPCG(t.Seed, 0x5e7))
	r.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
	each := (past + test + len(documents) - 1) / max(1, len(documents))
	tests, pasts := 0, 0
	for _, d := range documents {
		to, room, n := &s.Past, past-pasts, &pasts
		if tests < test {
			to, room, n = &s.Test, test-tests, &tests
		}
		some := pieces(d, t.Chars, max(1, each))
		some = some[:min(len(some), room)]
		*to, *n = append(*to, some...), *n+len(some)
	}
	return nil
}

// lines are the lines of documents that are no headings.
func lines(documents []string) (all []string) {
	for _, d := range documents {
		for line := range strings.Lines(d) {
			line = strings.TrimSpace(line)
			if heading := strings.HasPrefix(line, "=") && strings.HasSuffix(line, "="); line != "" && !heading {
				all = append(all, line)
			}
		}
	}
	return all
}

// pieces are up to n parts of a document that have so many characters at most, evenly over it: the
// first from its beginning, the others from a word's. A last part is left out if it is much shorter.
func pieces(document string, chars, n int) (all []string) {
	text := []rune(document)
	stride := max(chars, len(text)/n)
	for i := range n {
		from := i * stride
		if i > 0 {
			if from+chars/2 > len(text) {
				break
			}
			if space := slices.Index(text[from:], ' '); space >= 0 && space < chars/2 {
				from += space + 1
			}
		}
		all = append(all, string(text[from:min(len(text), from+chars)]))
	}
	return all
}
