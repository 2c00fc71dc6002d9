package words

import "strings"

type literal string

// Literal matches a text that is not empty.
func Literal(text string) Splitter { return literal(text) }

func (l literal) Each(text string, found func(start, end int) error) error {
	for at := 0; ; {
		i := strings.Index(text[at:], string(l))
		if i < 0 {
			return nil
		}
		if err := found(at+i, at+i+len(l)); err != nil {
			return err
		}
		at += i + len(l)
	}
}
