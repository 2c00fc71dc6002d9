package jsontext

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestCheckSurrogates(t *testing.T) {
	for raw, at := range map[string]int{
		`""`: -1, `"\ud83d\ude00"`: -1, `"\uD83D\uDE00 \uFFFD \\ud800"`: -1, "\"\ufffd\"": -1, `"\u0041\n\\"`: -1,
		`"\ud800"`: 1, `"\udc00"`: 1, `"a\ud83dx"`: 2, `"\ud83d\ud83d\ude00"`: 1, `"\ud83d\u0041"`: 1, `"\\\ud800"`: 3, `["a", {"\uDFFF": 1}]`: 8,
		`"\`: -1, `\ud8`: -1, `\ud800\`: 0, `\ud800`: 0,
	} {
		err := CheckSurrogates([]byte(raw))
		var e *SurrogateError
		if errors.As(err, &e) != (at >= 0) || e != nil && e.At != at {
			t.Errorf("%s: %v, want one at %d", raw, err, at)
		}
	}
}

// What passes is decoded without a character that was not there.
func FuzzCheckSurrogates(f *testing.F) {
	for _, s := range []string{`"\ud800"`, `"\ud83d\ude00"`, `"\\ud800\udc00"`, `"\uFFFD"`, `"\ud8`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var text string
		if CheckSurrogates([]byte(raw)) != nil || json.Unmarshal([]byte(raw), &text) != nil {
			return
		}
		sent := strings.Contains(strings.ToLower(raw), `\ufffd`) || strings.Contains(strings.ToValidUTF8(raw, "\ufffd"), "\ufffd")
		if strings.Contains(text, "\ufffd") && !sent {
			t.Errorf("%s became %q", raw, text)
		}
	})
}
