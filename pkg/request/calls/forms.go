package calls

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// noText is a byte that no UTF-8 has. It stands before a special token in a form, and in what
// such a token is read as, so that no text and no grammar of a producer's is taken for one.
const noText = "\xff"

// token returns a mark as a form has it.
func (s *Syntax) token(mark string) string {
	if s.has(mark) {
		return noText + mark
	}
	return mark
}

// Bytes returns a token's bytes for a grammar of Forms; text is what the token stands for.
func (s *Syntax) Bytes(id uint32, text []byte) []byte {
	if mark, is := s.ids[id]; is {
		return []byte(noText + mark)
	}
	if bytes.IndexByte(text, noText[0]) >= 0 {
		return nil // it is a part of no character
	}
	return text
}

// anyArguments are those of a tool that says nothing of them.
const anyArguments = `{"type":"object","properties":{}}`

var nameText = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func isName(name string) bool { return nameText.MatchString(name) }

// Forms returns what a grammar holds an answer to that is a call: of any of the tools, or of the one
// that only names. begun is what the prompt ends with.
func (s *Syntax) Forms(tools []Tool, only, begun string) (out []*pb.CallForm, err error) {
	ends := ""
	if begun != "" {
		ends = s.token(thinkClose) + "\n\n"
	}
	for _, t := range tools {
		if only != "" && t.Name != only {
			continue
		}
		if !isName(t.Name) {
			return nil, fmt.Errorf("tools has the name %.140q; a tool that has to be called is named by 1 to 128 of A-Z, a-z, 0-9, _, . and -", t.Name)
		}
		before, after := s.form(s, t.Name)
		schema := anyArguments
		if len(t.Parameters) > 0 && string(t.Parameters) != "null" {
			schema = string(t.Parameters)
		}
		out = append(out, &pb.CallForm{Before: []byte(ends + before), JsonSchema: schema, After: []byte(after)})
	}
	switch {
	case len(out) == 0 && only != "":
		return nil, fmt.Errorf("tool_choice names %.140q, which is none of tools", only)
	case len(out) == 0:
		return nil, errors.New("tool_choice has a tool be called, and there are no tools")
	}
	return out, nil
}

// Begun returns what a prompt's text ends with that begins its answer.
func (s *Syntax) Begun(prompt string) string {
	if !s.silent && strings.HasSuffix(strings.TrimRight(prompt, white), thinkOpen) {
		return thinkOpen
	}
	return ""
}
