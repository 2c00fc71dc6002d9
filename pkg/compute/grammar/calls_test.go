package grammar

import (
	"strings"
	"testing"
)

// A call is a text, an object of its schema that has no other properties, and a text; bytes that
// no text has are those of special tokens.
func TestCalls(t *testing.T) {
	words := []string{"\xff<call>", "<call>", "\xff</call>", "f:", "g:", `{"a":`, `,"b":`, "1", "22", "}", "{}", "\xff"}
	set := NewSet(len(words), func(id uint32, _ bool) []byte { return []byte(words[id]) })
	spec := Spec{Compact: true, Calls: []Call{
		{"\xff<call>f:", `{"properties":{"a":{"type":"integer","maximum":9,"minimum":0}},"required":["a"]}`, "\xff</call>"},
		{"\xff<call>g:", `{"type":"object","properties":{}}`, ""},
	}}
	for text, over := range map[string]bool{
		"\xff<call>|f:|{\"a\":|1|}|\xff</call>": true, "\xff<call>|g:|{}": true, "\xff<call>|f:|{\"a\":|1|}": false,
	} {
		c, err := set.Begin(spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Split(text, "|") {
			allowed := c.Mask()
			for id, w := range words {
				if w == word && allowed[0]>>id&1 == 0 {
					t.Errorf("%q: %q is not allowed", text, word)
				}
			}
			c.Read([]byte(word))
		}
		if c.Over() != over {
			t.Errorf("%q is over: %v", text, c.Over())
		}
	}
	for _, text := range []string{"<call>", "\xff<call>|f:|{}", "\xff<call>|f:|{\"a\":|22", "\xff<call>|f:|{\"a\":|1|,\"b\":"} {
		c, err := set.Begin(spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Split(text, "|") {
			c.Read([]byte(word))
		}
		if c.Over() || c.Mask() != nil {
			t.Errorf("%q is allowed", text)
		}
	}
}

func TestCallsRefused(t *testing.T) {
	for says, spec := range map[string]Spec{
		"tools: /properties/a: not": {Calls: []Call{{Schema: `{"properties":{"a":{"not":{"minLength":1}}}}`}}},
		"exclude each other":        {JSONObject: true, Calls: []Call{{Schema: "{}"}}},
		"tools allows nothing":      {Calls: []Call{{Schema: `{"type":"string"}`}}},
		"tools has":                 {Calls: []Call{{Schema: strings.Repeat(" ", MaxBytes) + "{}"}}},
	} {
		if _, err := Compile(spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
