package tokenizer

import (
	"slices"
	"strings"
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

// finder finds the longest added token at a position. It takes no more memory than
// the tokens themselves.
type finder struct {
	entries []entry   // by content, once sorted
	starts  [256]bool // bytes that some token begins with
}

type entry struct {
	content string
	token   *addedToken
}

// add looks for content once sort was called; an empty one is never found.
func (f *finder) add(content string, token *addedToken) {
	if content == "" {
		return
	}
	f.starts[content[0]] = true
	f.entries = append(f.entries, entry{content, token})
}

// sort must be called between add and longest. Of equal contents the last one counts.
func (f *finder) sort() {
	slices.Reverse(f.entries)
	slices.SortStableFunc(f.entries, func(a, b entry) int { return strings.Compare(a.content, b.content) })
	f.entries = slices.CompactFunc(f.entries, func(a, b entry) bool { return a.content == b.content })
}

func (f *finder) empty() bool { return len(f.entries) == 0 }

// strips says that some token takes white space away, however much of it.
func (f *finder) strips() bool {
	return slices.ContainsFunc(f.entries, func(e entry) bool { return e.token.LStrip || e.token.RStrip })
}

// longest returns the longest token that text begins with and its length, or
// nil. Byte by byte it narrows down the entries that go on like the text.
func (f *finder) longest(text string) (token *addedToken, n int) {
	low, high := 0, len(f.entries)
	for i := range len(text) {
		byteAt := func(e entry, c byte) int { return int(e.content[i]) - int(c) }
		from, _ := slices.BinarySearchFunc(f.entries[low:high], text[i], byteAt)
		to, _ := slices.BinarySearchFunc(f.entries[low+from:high], text[i], func(e entry, c byte) int {
			if byteAt(e, c) <= 0 {
				return -1
			}
			return 1
		})
		low, high = low+from, low+from+to
		if low == high {
			break
		}
		if len(f.entries[low].content) == i+1 { // the shortest comes first
			token, n = f.entries[low].token, i+1
			if low++; low == high {
				break
			}
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

// counts reports whether the added token at text[start:end] is one, and not text.
type counts func(token *addedToken, start, end int) bool

// all says that every token counts; plain that those do that are not special.
func all(*addedToken, int, int) bool             { return true }
func plain(token *addedToken, _ int, _ int) bool { return !token.Special }

// cut splits text at added tokens as AddedVocabulary::find_matches does.
func (f *finder) cut(text string, counts counts) []segment {
	if f.empty() {
		return []segment{{text: text}}
	}
	var out []segment
	done := 0 // text before it is in out
	for at := 0; at < len(text); {
		if !f.starts[text[at]] {
			at++
			continue
		}
		token, n := f.longest(text[at:])
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
