package calls

import "slices"

// Marks that several families share.
const (
	thinkOpen, thinkClose = "<think>", "</think>"
	callOpen, callClose   = "<tool_call>", "</tool_call>"
	listOpen, listArgs    = "[TOOL_CALLS]", "[ARGS]"
)

// family is how some models write calls.
type family struct {
	name string
	// by are parts of its chat templates, one of which tells it from others.
	by    []string
	marks []string
	begin func(*Syntax) machine
	form  func(s *Syntax, name string) (before, after string)
	// silent families have thoughts in channels, and not between marks.
	silent bool
}

var families = []family{
	{name: "harmony", by: []string{channelMark + "analysis", channelMark + "final"}, marks: channelMarks, begin: newChannels, form: channelForm, silent: true},
	{name: "deepseek", by: []string{deepseekMarks.open}, marks: deepseekMarks.all(), begin: deepseekMarks.begin, form: deepseekForm},
	{name: "kimi", by: []string{kimiMarks.open}, marks: kimiMarks.all(), begin: kimiMarks.begin, form: kimiForm},
	{name: "mistral", by: []string{listOpen}, marks: []string{listOpen, listArgs, listID}, begin: newListed, form: listedForm},
	{name: "llama", by: []string{"<|python_start|>", "<|python_tag|>"}, marks: bareMarks, begin: newBare, form: bareForm},
	plain,
}

// plain is what models of Qwen's and Hermes' families write, and what those do that have no form of their own.
var plain = family{name: "hermes", by: []string{callOpen}, marks: []string{callOpen, callClose}, begin: newTagged, form: taggedForm}

// Syntax is how one model writes thoughts and calls. It is safe for concurrent use.
type Syntax struct {
	family
	ids     map[uint32]string
	textual []string // the marks that are no tokens
	fenced  bool     // arguments stand in a fence, as DeepSeek's first releases write them
}

// Template is a model's chat template.
type Template interface {
	// Writes reports whether it has a text in it.
	Writes(text string) bool
}

// Find finds the syntax of a model by its chat template (nil: it has none), and by the ids of
// tokens that its vocabulary has.
func Find(t Template, id func(token string) (uint32, bool)) *Syntax {
	s := &Syntax{family: plain, ids: map[uint32]string{}}
	if t != nil {
		for _, f := range families {
			if slices.ContainsFunc(f.by, t.Writes) {
				s.family = f
				break
			}
		}
		s.fenced = t.Writes("```json")
	}
	marks := s.marks
	if !s.silent {
		marks = slices.Concat(marks, []string{thinkOpen, thinkClose})
	}
	for _, mark := range marks {
		if n, ok := id(mark); ok {
			s.ids[n] = mark
		} else {
			s.textual = append(s.textual, mark)
		}
	}
	return s
}

// Name returns the family's name.
func (s *Syntax) Name() string { return s.name }

// has reports whether a mark is a token.
func (s *Syntax) has(mark string) bool { return !slices.Contains(s.textual, mark) }
