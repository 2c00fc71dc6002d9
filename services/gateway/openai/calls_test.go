package openai

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// told is what pieces of a text are, written so that they can be compared.
func told(s *Sayer, pieces ...string) string {
	var content, reasoning, calls strings.Builder
	add := func(all []Said) {
		for _, said := range all {
			content.WriteString(said.Content)
			reasoning.WriteString(said.Reasoning)
			if c := said.Call; c != nil {
				fmt.Fprintf(&calls, "%d:%s(%s)", c.Index, c.Name, c.Arguments)
			}
		}
	}
	for _, p := range pieces {
		add(s.Push(p))
	}
	add(s.End())
	return fmt.Sprintf("%q %q %s", &content, &reasoning, &calls)
}

var tellings = map[string]string{
	"Hello":                          `"Hello" "" `,
	"a < b <tool":                    `"a < b <tool" "" `,
	"<think>\nhm\n</think>\n\nHello": `"Hello" "\nhm\n" `,
	"<think>cut":                     `"" "cut" `,
	"no <think>x</think>":            `"no <think>x</think>" "" `,
	"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>":                            `"" "" 0:f({"a": 1})`,
	"x<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"g\",\"parameters\":{}}</tool_call>y": `"xy" "" 0:f({})1:g({})`,
	"<tool_call>{\"name\":\"f\",\"arguments\":{}}":                                                       `"" "" 0:f({})`,
	"<tool_call>{\"name\":":     `"<tool_call>{\"name\":" "" `,
	"<tool_call>no</tool_call>": `"<tool_call>no</tool_call>" "" `,
}

func TestTelling(t *testing.T) {
	for text, want := range tellings {
		if got := told(&Sayer{tools: true}, text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	if got := told(&Sayer{}, "<tool_call>{}</tool_call>"); !strings.HasPrefix(got, `"<tool_call>{}</tool_call>"`) {
		t.Errorf("without tools: %s", got)
	}
}

// However a text is cut into pieces, it says the same.
func TestTellingInPieces(t *testing.T) {
	texts := make([]string, 0, len(tellings))
	for text := range tellings {
		texts = append(texts, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(t, "text")
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := told(&Sayer{tools: true}, pieces...); got != tellings[text] {
			t.Errorf("%q is %s, want %s", pieces, got, tellings[text])
		}
	})
}
