package words

// caseStyle matches the patterns of o200k (gpt-oss), Llama 4, Mistral's tekken
// and Kimi, where a capital begins a word.
type caseStyle struct {
	*Table
	upper, lower Class // both have the letters without case
	han          bool  // a run of Han characters is a word
	endings      bool  // a word takes an English ending such as 's
	digits       int
	tail         string // what may follow punctuation
}

func newCaseStyle() *caseStyle {
	return &caseStyle{Table: Classes(), upper: Upper, lower: Lower, endings: true, digits: 3, tail: "\r\n/"}
}

func newTekken() *caseStyle {
	return &caseStyle{Table: Classes(), upper: Upper, lower: Lower, digits: 1, tail: "\r\n/"}
}

func newKimi() *caseStyle {
	return &caseStyle{Table: Classes(), upper: UpperBut, lower: LowerBut, han: true, endings: true, digits: 3, tail: "\r\n"}
}

func (t *caseStyle) scan(s string, i int) int {
	c, n := t.at(s, i)
	if t.han && c&Han != 0 {
		return t.run(s, i, Han)
	}
	if end := t.word(s, i, c, n); end > i {
		if t.endings && end < len(s) {
			end += contraction(s, end, true)
		}
		return end
	}
	if c&Number != 0 {
		return t.upTo(s, i, Number, t.digits)
	}
	if end := t.punctuation(s, i, Rest, t.tail); end > i {
		return end
	}
	return t.blank(s, i, false)
}

// word matches the two alternatives for words, first with the character of
// class c and length n before them and then without:
//
//	[^\r\n\p{L}\p{N}]? upper* lower+
//	[^\r\n\p{L}\p{N}]? upper+ lower*
func (t *caseStyle) word(s string, i int, c Class, n int) int {
	led, bare := i, i // ends of capitals without a small letter after them
	if c&(Letter|Number) == 0 && s[i] != '\r' && s[i] != '\n' {
		end, capitals := t.upperLower(s, i+n)
		if end > i+n {
			return end
		}
		if capitals > i+n {
			led = capitals
		}
	}
	if c&(t.upper|t.lower) != 0 {
		end, capitals := t.upperLower(s, i)
		if end > i {
			return end
		}
		bare = capitals
	}
	if led > i {
		return led
	}
	return bare
}

// upperLower matches upper* lower+ at i; end is i if it does not. capitals is
// where the run of upper ends. Where no letter follows that run that is only in
// lower, the match ends with the last letter that is in both.
func (t *caseStyle) upperLower(s string, i int) (end, capitals int) {
	at, both := i, i
	for {
		c, n := t.at(s, at)
		if c&t.upper == 0 {
			break
		}
		at += n
		if c&t.lower != 0 {
			both = at
		}
	}
	if end := t.run(s, at, t.lower); end > at {
		return end, at
	}
	return both, at
}
