package tokenizer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

var forms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

// parseNormalizer reads the steps that texts go through before splitting.
func parseNormalizer(raw json.RawMessage) (n normalizer, err error) {
	steps, err := readSteps(raw, "normalizers")
	if err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	for i := range steps {
		step, err := steps[i].normalizer()
		if err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
		n = append(n, step)
	}
	return n, nil
}

func (s *stepJSON) normalizer() (normalStep, error) {
	if form, ok := forms[s.Type]; ok {
		return toForm(form), nil
	}
	if n := max(len(s.Prepend), len(s.Content)); n > maxToken { // a text could become that much longer at each character
		return normalStep{}, fmt.Errorf("%s: its text of %d bytes is longer than %d", s.Type, n, maxToken)
	}
	switch s.Type {
	case "Lowercase":
		return normalStep{lowercase, maxShrink}, nil
	case "Prepend":
		return normalStep{func(text string) string { return s.Prepend + text }, 1}, nil
	case "Replace":
		return s.replace()
	case "Strip":
		return normalStep{s.strip, 0}, nil
	case "StripAccents":
		isNoMark := func(r rune) bool { return !unicode.Is(unicode.M, r) }
		return normalStep{func(text string) string { return keep(text, isNoMark) }, 0}, nil
	case "BertNormalizer":
		b := bertNormalizer{Clean: true, Chinese: true, Lowercase: true}
		if err := json.Unmarshal(s.raw, &b); err != nil {
			return normalStep{}, fmt.Errorf("reading BertNormalizer: %w", err)
		}
		return normalStep{b.apply, 0}, nil
	}
	return normalStep{}, fmt.Errorf("type %q is not supported; supported are Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, StripAccents and BertNormalizer", s.Type)
}

func (s *stepJSON) strip(text string) string {
	if s.StripLeft {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if s.StripRight {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}

// replace takes texts, and the regular expressions that Go's engine takes: a
// normalizer must not be slow on any text.
func (s *stepJSON) replace() (normalStep, error) {
	switch p := s.Pattern; {
	case p.String != nil && *p.String != "":
		shrink := 1
		if len(s.Content) < len(*p.String) {
			shrink = 0
			if s.Content != "" {
				shrink = (len(*p.String) + len(s.Content) - 1) / len(s.Content)
			}
		}
		return normalStep{func(text string) string { return strings.ReplaceAll(text, *p.String, s.Content) }, shrink}, nil
	case p.Regex != nil:
		re, err := regexp.Compile(unicodeSpace.Replace(*p.Regex))
		if err != nil {
			return normalStep{}, fmt.Errorf("compiling a Replace's pattern: %w", err)
		}
		return normalStep{func(text string) string { return re.ReplaceAllLiteralString(text, s.Content) }, 0}, nil
	}
	return normalStep{}, fmt.Errorf("a Replace's pattern is neither a Regex nor a String")
}

// unicodeSpace makes \s of a pattern all white space, which in Go's engine is
// ASCII's.
var unicodeSpace = strings.NewReplacer(`\\`, `\\`, `\s`, `[\t\n\v\f\r \x{85}\p{Z}]`)
