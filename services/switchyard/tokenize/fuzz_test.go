package tokenize

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// Lines from outside are answered one by one until one of them cannot be used, and
// what is taken for text is text.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"{\"text\": \"a\"}\n\n{\"ids\": [1]}", `{"bytes_b64": "/w=="}`, `{"text": "\ud800"}`, "\xff", `{"ids": [-1]}`, "null"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		read := 0
		err := eachLine(bytes.NewReader(in), &out, func(l *line, answer []byte) ([]byte, error) {
			if read++; l.Text != nil && !utf8.ValidString(*l.Text) {
				t.Errorf("%q", *l.Text)
			}
			return appendIDs(answer, l.IDs), nil
		})
		if n := strings.Count(out.String(), "\n"); n != read {
			t.Errorf("%d lines were read and %d answered: %v", read, n, err)
		}
	})
}
