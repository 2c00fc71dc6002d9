package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// decoder tells the text that a token stands for, within a text and at its
// beginning.
type decoder func(token string) (text, first []byte)

// parseDecoder reads tokenizer.json's decoder. bytewise is as for pieces; same
// says that the beginning makes no difference. byteLevel says how the model's
// tokens are written.
func parseDecoder(raw json.RawMessage, byteLevel bool) (d decoder, bytewise, same bool, err error) {
	steps, err := readSteps(raw, "decoders")
	switch {
	case err != nil:
		return nil, false, false, fmt.Errorf("decoder: %w", err)
	case len(steps) == 0:
		return nil, false, false, fmt.Errorf("decoder: none is given")
	case byteLevel != (steps[0].Type == "ByteLevel"):
		return nil, false, false, fmt.Errorf("decoder: %q does not fit the pre_tokenizer: both or none must be ByteLevel", steps[0].Type)
	}
	switch steps[0].Type {
	case "ByteLevel":
		return byteLevelText, false, true, onlyFuse(steps[1:])
	case "WordPiece":
		return wordPieceText(steps[0].Prefix, steps[0].Cleanup), false, false, onlyFuse(steps[1:])
	case "Metaspace":
		d, err := steps[0].metaspaceText()
		if err == nil {
			err = onlyFuse(steps[1:])
		}
		return d, true, false, err
	}
	d, err = spacesText(steps)
	return d, true, false, err
}

// onlyFuse refuses steps that would change what the first one made.
func onlyFuse(steps []stepJSON) error {
	for _, s := range steps {
		if s.Type != "Fuse" {
			return fmt.Errorf("decoder: %q as a later step is not supported", s.Type)
		}
	}
	return nil
}

func byteLevelText(token string) (text, first []byte) {
	b, _ := bytesOf(token)
	return b, b
}

// wordPieceText joins what begins with prefix to the token before, and puts a
// blank before all others, except punctuation with cleanup.
func wordPieceText(prefix string, cleanup bool) decoder {
	clean := func(s string) []byte {
		if cleanup {
			s = withoutBlanks(s)
		}
		return []byte(s)
	}
	return func(token string) (text, first []byte) {
		if tail, ok := strings.CutPrefix(token, prefix); ok {
			return clean(tail), clean(token)
		}
		return clean(" " + token), clean(token)
	}
}

// withoutBlanks joins English punctuation and endings to the word before them.
func withoutBlanks(s string) string {
	for _, pair := range [][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
		{" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, pair[0], pair[1])
	}
	return s
}

func (s *stepJSON) metaspaceText() (decoder, error) {
	if s.Replacement == "" {
		return nil, fmt.Errorf("decoder: a Metaspace has no replacement")
	}
	atStart := ""
	if s.PrependScheme == "never" || s.AddPrefixSpace != nil && !*s.AddPrefixSpace {
		atStart = " "
	}
	return func(token string) (text, first []byte) {
		return []byte(strings.ReplaceAll(token, s.Replacement, " ")), []byte(strings.ReplaceAll(token, s.Replacement, atStart))
	}, nil
}

// spacesText reads the steps that SentencePiece models have in tokenizer.json:
// Replace, ByteFallback, Fuse, and a Strip at the beginning of the text.
func spacesText(steps []stepJSON) (decoder, error) {
	var pairs []string
	fallback, fused, strip := false, false, []byte(nil)
	for _, s := range steps {
		switch {
		case s.Type == "Replace" && s.Pattern.String != nil && *s.Pattern.String != "" && !fused:
			pairs = append(pairs, *s.Pattern.String, s.Content)
		case s.Type == "ByteFallback":
			fallback = true
		case s.Type == "Fuse":
			fused = true
		case s.Type == "Strip" && fused && s.Stop == 0 && s.Start <= 1:
			strip = []byte(strings.Repeat(s.Content, s.Start))
		default:
			return nil, fmt.Errorf("decoder: %q is not supported here: %s", s.Type, s.raw)
		}
	}
	if len(pairs) > 2 {
		return nil, fmt.Errorf("decoder: more than one Replace is not supported")
	}
	replacer := strings.NewReplacer(pairs...)
	return func(token string) (text, first []byte) {
		if b, ok := byteOfName(token); ok && fallback {
			return []byte{b}, []byte{b}
		}
		text = []byte(replacer.Replace(token))
		return text, []byte(strings.TrimPrefix(string(text), string(strip)))
	}, nil
}

// byteOfName reads a token such as <0x0A>, which stands for one byte.
func byteOfName(token string) (b byte, ok bool) {
	if len(token) != len("<0x0A>") || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	for _, c := range []byte(token[3:5]) {
		switch {
		case c >= '0' && c <= '9':
			b = b<<4 | (c - '0')
		case c >= 'A' && c <= 'F':
			b = b<<4 | (c - 'A' + 10)
		default:
			return 0, false
		}
	}
	return b, true
}

func nameOfByte(b int) string { return fmt.Sprintf("<0x%02X>", b) }
