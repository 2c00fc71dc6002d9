package terminal

import (
	"strings"
	"testing"
)

func TestQuitKeys(t *testing.T) {
	for keys, want := range map[string]bool{"xq": true, "Q": true, "\x03": true, "xyz": false, "": false} {
		got := false
		awaitQuit(strings.NewReader(keys), func() { got = true })
		if got != want {
			t.Errorf("%q quits: %v", keys, got)
		}
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain, é 🙂":                   "plain, é 🙂",
		"a\x1b[2Jb\r\nc\td\x7fe\u0085": "a?[2Jb??c?d?e?",
		"abc\u202ecba\u2066x\u2028y":   "abc?cba?x?y", // turned around, or on another line
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
