package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: text that is one token wherever it
// stands, cut out before the words are.
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only between characters that are no word's
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // looked for after normalising
	Special    bool   `json:"special"`
}

// trie finds the longest added token at a position.
type trie struct {
	root   node
	starts [256]bool // bytes that some token begins with
}

type node struct {
	next  map[byte]*node
	token *addedToken
}

// add looks for content from now on; an empty one is never found.
func (t *trie) add(content string, token *addedToken) {
	if content == "" {
		return
	}
	t.starts[content[0]] = true
	at := &t.root
	for i := range len(content) {
		if at.next == nil {
			at.next = map[byte]*node{}
		}
		child := at.next[content[i]]
		if child == nil {
			child = &node{}
			at.next[content[i]] = child
		}
		at = child
	}
	at.token = token
}

func (t *trie) empty() bool { return t.root.next == nil }

// strips says that some token takes white space away, however much of it.
func (t *trie) strips() bool { return t.root.strips() }

func (n *node) strips() bool {
	if a := n.token; a != nil && (a.LStrip || a.RStrip) {
		return true
	}
	for _, child := range n.next {
		if child.strips() {
			return true
		}
	}
	return false
}

// longest returns the longest token that text begins with and its length, or
// nil.
func (t *trie) longest(text string) (token *addedToken, n int) {
	at := &t.root
	for i := range len(text) {
		if at = at.next[text[i]]; at == nil {
			break
		}
		if at.token != nil {
			token, n = at.token, i+1
		}
	}
	return token, n
}

// segment is a part of a text: an added token, or text that none was found in,
// which begins at byte at.
type segment struct {
	text  string
	at    int
	token *addedToken
}

// counts says whether the added token at text[start:end] is one, and not text.
type counts func(token *addedToken, start, end int) bool

// all says that every token counts; plain that those do that are not special.
func all(*addedToken, int, int) bool             { return true }
func plain(token *addedToken, _ int, _ int) bool { return !token.Special }

// cut splits text at added tokens as AddedVocabulary::find_matches does.
func (t *trie) cut(text string, counts counts) []segment {
	if t.empty() {
		return []segment{{text: text}}
	}
	var out []segment
	done := 0 // text before it is in out
	for at := 0; at < len(text); {
		if !t.starts[text[at]] {
			at++
			continue
		}
		token, n := t.longest(text[at:])
		if token == nil {
			at++
			continue
		}
		start, end := at, at+n
		at = end
		if !counts(token, start, end) || token.SingleWord && !standsAlone(text, start, end) {
			continue
		}
		start, end = token.strip(text, start, end, done)
		if done < start {
			out = append(out, segment{text: text[done:start], at: done})
		}
		out = append(out, segment{token: token})
		done, at = end, max(at, end)
	}
	if done < len(text) {
		out = append(out, segment{text: text[done:], at: done})
	}
	return out
}

// strip widens a match over the white space that it takes, not before floor.
func (a *addedToken) strip(text string, start, end, floor int) (int, int) {
	for a.LStrip && start > floor {
		r, n := utf8.DecodeLastRuneInString(text[:start])
		if !unicode.IsSpace(r) {
			break
		}
		start -= n
	}
	for a.RStrip && end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !unicode.IsSpace(r) {
			break
		}
		end += n
	}
	return max(start, floor), end
}

// standsAlone reports whether no word character touches text[start:end].
func standsAlone(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return (start == 0 || !wordChar(before)) && (end == len(text) || !wordChar(after))
}

// wordChar is \w of UTS 18, which Rust's regex crate has.
func wordChar(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
