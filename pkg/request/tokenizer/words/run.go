package words

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// runPattern is a pattern of one of the forms Y, Y+, Y{m,n}, X?Y+ and Y+$,
// where X and Y are classes of characters.
type runPattern struct {
	lead     *set // X
	body     *set
	min, max int
	atEnd    bool // $ follows: before a newline or the end
	scanner  scanner
}

// set is a class of characters in a pattern.
type set struct {
	kinds  Class
	ranges [][2]rune // in order
	negate bool
	ascii  [utf8.RuneSelf]bool
}

func (s *set) has(r rune) bool {
	if r < utf8.RuneSelf {
		return s.ascii[r]
	}
	return s.find(r)
}

func (s *set) find(r rune) bool {
	if s.kinds != 0 && Classes().Of(r)&s.kinds != 0 {
		return !s.negate
	}
	_, found := slices.BinarySearchFunc(s.ranges, r, func(x [2]rune, r rune) int {
		switch {
		case x[1] < r:
			return -1
		case x[0] > r:
			return 1
		}
		return 0
	})
	return found != s.negate
}

// finish sorts the ranges, joins those that overlap, and fills the table of ASCII.
func (s *set) finish() {
	slices.SortFunc(s.ranges, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	apart := s.ranges[:0]
	for _, r := range s.ranges {
		if last := len(apart) - 1; last >= 0 && r[0] <= apart[last][1] {
			apart[last][1] = max(apart[last][1], r[1])
			continue
		}
		apart = append(apart, r)
	}
	s.ranges = apart
	for r := range rune(utf8.RuneSelf) {
		s.ascii[r] = s.find(r)
	}
}

// run returns where the run ends that begins at i, of at most p.max characters.
func (p *runPattern) run(s string, i int) (end, count int) {
	for i < len(s) && count < p.max {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !p.body.has(r) {
			break
		}
		i, count = i+n, count+1
	}
	return i, count
}

func (p *runPattern) scan(s string, i int) int {
	if p.lead != nil {
		r, n := utf8.DecodeRuneInString(s[i:])
		if p.lead.has(r) {
			if end, count := p.run(s, i+n); count >= p.min {
				return end
			}
		}
	}
	if end, count := p.run(s, i); count >= p.min {
		return end
	}
	return i
}

func (p *runPattern) Each(text string, found func(start, end int) error) error {
	if p.atEnd {
		return p.eachAtEnd(text, found)
	}
	return p.scanner.Each(text, found)
}

// eachAtEnd tries once for each run, not at each of its characters, which would
// take quadratic time.
func (p *runPattern) eachAtEnd(text string, found func(start, end int) error) error {
	for i := 0; i < len(text); {
		end, count := p.run(text, i)
		if count == 0 {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
			continue
		}
		if end < len(text) && text[end] != '\n' {
			if line := p.lastLine(text, i, end); line > i {
				end = line
			} else {
				i = end
				continue
			}
		}
		if err := found(i, end); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// lastLine returns the end of a run that does not end a line, cut before its last
// newline: what comes before that one does.
func (p *runPattern) lastLine(s string, i, end int) int {
	if at := strings.LastIndexByte(s[i:end], '\n'); at > 0 {
		return i + at
	}
	return i
}
