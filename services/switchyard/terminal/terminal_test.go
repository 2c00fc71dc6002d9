package terminal

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for sent, want := range map[string]string{
		"": "", "q": "q", "jk": "j k", "\x1b[A\x1b[B": "up down", "\x1bOC": "right", "\x1b[5~x": "pgup x", "\x03": "interrupt",
		"\r\t": "enter tab", "é1": "é 1", "\x1b": "", "\x1b[": "", "\x1b[200~a": "a", "\x1b[1;5Cz": "z", "\x00\x7f\xff": "", "\x1bO": "O",
	} {
		if got := strings.Join(parse([]byte(sent)), " "); got != want {
			t.Errorf("%q is %q, want %q", sent, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a\x1b[A\x1b[200~\x1bOq"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if keys := parse(sent); len(keys) > len(sent) {
			t.Errorf("%q of %q", keys, sent)
		}
	})
}

// Keys that nobody takes do not stop the reading of others, and the end ends it.
func TestRead(t *testing.T) {
	typed := make(chan string, 2)
	read(strings.NewReader("abcd"), typed)
	if got := []string{<-typed, <-typed, <-typed}; got[0] != "a" || got[1] != "b" || got[2] != "" {
		t.Errorf("%q", got)
	}
}

func TestPage(t *testing.T) {
	var b strings.Builder
	p, err := OpenPage(&b)
	if err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := p.Draw([]string{"one", "two"}, func(i int) bool { return i == 0 }); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[H\x1b[K\x1b[7mone\x1b[0m\r\n\x1b[Ktwo"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
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
