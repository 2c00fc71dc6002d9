package tokenizer

import "strings"

// Part is a part of a text that somebody sent, or that the model's own files wrote.
type Part struct {
	Text    string
	Outside bool
}

// EncodeParts encodes a text that comes from several. Its words are found as if it
// were one, but a special token counts only where all of it comes from the model's
// own files: what looks like one in a text from outside is text. So it is with other
// added tokens of which control says that they mean something where they are used.
func (t *Tokenizer) EncodeParts(parts []Part, control func(token string) bool) ([]uint32, error) {
	var text strings.Builder
	o := &origin{}
	for _, p := range parts {
		o.ends, o.outside = append(o.ends, text.Len()+len(p.Text)), append(o.outside, p.Outside)
		text.WriteString(p.Text)
	}
	controls := map[uint32]bool{} // asked once of each token
	counts := func(token *addedToken, start, end int) bool {
		is, known := controls[token.ID]
		if !known {
			is = token.Special || control(token.Content)
			controls[token.ID] = is
		}
		return !is || o.inside(start, end)
	}
	return t.encode(text.String(), counts, o)
}

// origin is where the parts of a text end, and which of them are from outside.
// Questions come in ascending order.
type origin struct {
	ends    []int
	outside []bool
	at      int // the part that the last question was about
}

// part returns the part that has the byte at start.
func (o *origin) part(start int) int {
	if o.at > 0 && o.ends[o.at-1] > start {
		o.at = 0
	}
	for o.at < len(o.ends)-1 && o.ends[o.at] <= start {
		o.at++
	}
	return o.at
}

// inside reports whether no byte from start up to end came from outside.
func (o *origin) inside(start, end int) bool {
	for i := o.part(start); i < len(o.ends); i++ {
		if o.outside[i] {
			return false
		}
		if o.ends[i] >= end {
			break
		}
	}
	return true
}

// normalized normalises a text that stands at byte at and cuts it at added tokens. A
// text of several origins is normalised as one unless there are tokens to be found
// then: their origin could not be told.
func (e *encoder) normalized(text string, at int) []segment {
	if e.origin == nil || e.t.normalized.empty() {
		return e.t.normalized.cut(e.t.normal.apply(text), e.counts)
	}
	var out []segment
	var between strings.Builder // tokens: may be of many parts
	flush := func() {
		if between.Len() > 0 {
			out = append(out, segment{text: between.String()})
			between.Reset()
		}
	}
	for end := at + len(text); at < end; {
		i := e.origin.part(at)
		n := min(e.origin.ends[i], end) - at
		counts := func(token *addedToken, _, _ int) bool { return e.counts(token, at, at+1) }
		for _, s := range e.t.normalized.cut(e.t.normal.apply(text[:n]), counts) {
			if s.token == nil {
				between.WriteString(s.text)
				continue
			}
			flush()
			out = append(out, s)
		}
		text, at = text[n:], at+n
	}
	flush()
	return out
}
