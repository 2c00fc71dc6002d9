package words

import (
	"strings"
	"unicode/utf8"
)

type gpt2Words struct{ *Table }

func (t gpt2Words) scan(s string, i int) int {
	if n := contraction(s, i, false); n > 0 {
		return i + n
	}
	body := i
	if s[i] == ' ' {
		body++
	}
	switch c, _ := t.at(s, body); {
	case c&Letter != 0:
		return t.run(s, body, Letter)
	case c&Number != 0:
		return t.run(s, body, Number)
	case c&Rest != 0:
		return t.run(s, body, Rest)
	}
	return lastSpace(s, i, t.run(s, i, Space))
}

// wordStyle matches the patterns of cl100k, Llama 3 and Qwen, which differ in
// what makes a word and how many digits stay together.
type wordStyle struct {
	*Table
	letters, rest Class
	digits        int
	endFirst      bool // white space at the end of the text is one word, whatever lines it has
}

func (t *wordStyle) scan(s string, i int) int {
	if n := contraction(s, i, true); n > 0 {
		return i + n
	}
	c, n := t.at(s, i)
	if c&Number != 0 {
		return t.upTo(s, i, Number, t.digits)
	}
	if c&Letter == 0 && s[i] != '\r' && s[i] != '\n' {
		if end := t.run(s, i+n, t.letters); end > i+n {
			return end
		}
	}
	if c&t.letters != 0 {
		return t.run(s, i, t.letters)
	}
	if end := t.punctuation(s, i, t.rest, "\r\n"); end > i {
		return end
	}
	return t.blank(s, i, t.endFirst)
}

// punctuation matches " ?[rest]+[tail]*".
func (t *Table) punctuation(s string, i int, rest Class, tail string) int {
	at := i
	if s[i] == ' ' {
		at++
	}
	end := t.run(s, at, rest)
	if end == at {
		return i
	}
	for end < len(s) && strings.IndexByte(tail, s[end]) >= 0 {
		end++
	}
	return end
}

// blank matches `\s*[\r\n]+|\s+(?!\S)|\s+`, with endFirst `\s+$` before it.
func (t *Table) blank(s string, i int, endFirst bool) int {
	end := t.run(s, i, Space)
	if endFirst && end == len(s) {
		return end
	}
	if line := strings.LastIndexAny(s[i:end], "\r\n"); line >= 0 {
		return i + line + 1
	}
	return lastSpace(s, i, end)
}

// lastSpace matches `\s+(?!\S)|\s+` where white space goes from i to end: all
// of it at the end of the text, else all but its last character, which goes
// with the word after it.
func lastSpace(s string, i, end int) int {
	if end == len(s) {
		return end
	}
	if _, last := utf8.DecodeLastRuneInString(s[i:end]); end-last > i {
		return end - last
	}
	return end
}

// contraction returns the length of an English ending such as 's or 'll at i.
func contraction(s string, i int, anyCase bool) int {
	if s[i] != '\'' || len(s)-i < 2 {
		return 0
	}
	fold := byte(0)
	if anyCase {
		if strings.HasPrefix(s[i+1:], "ſ") { // folds to s
			return 1 + len("ſ")
		}
		fold = 'a' - 'A'
	}
	switch s[i+1] | fold {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s)-i >= 3 {
		switch [2]byte{s[i+1] | fold, s[i+2] | fold} {
		case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
			return 3
		}
	}
	return 0
}

// deepseekWords matches the last pattern of DeepSeek-V3. It matches no digits
// and no control characters, which stay words between its matches.
type deepseekWords struct{ *Table }

func (t deepseekWords) scan(s string, i int) int {
	c, n := t.at(s, i)
	if s[i] < utf8.RuneSelf && c&(Punct|Symbol) != 0 {
		if end := asciiLetters(s, i+1); end > i+1 {
			return end
		}
	}
	if c&(Letter|Punct|Symbol) == 0 && s[i] != '\r' && s[i] != '\n' {
		if end := t.run(s, i+n, Letter|Mark); end > i+n {
			return end
		}
	}
	if c&(Letter|Mark) != 0 {
		return t.run(s, i, Letter|Mark)
	}
	if end := t.punctuation(s, i, Punct|Symbol, "\r\n"); end > i {
		return end
	}
	if c&Space == 0 {
		return i
	}
	return t.blank(s, i, false)
}

func asciiLetters(s string, i int) int {
	for i < len(s) && (s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z') {
		i++
	}
	return i
}
