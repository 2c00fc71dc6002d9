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

// finish sorts the ranges and fills the table of ASCII; it is false where
// ranges overlap.
func (s *set) finish() bool {
	slices.SortFunc(s.ranges, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	for i := 1; i < len(s.ranges); i++ {
		if s.ranges[i][0] <= s.ranges[i-1][1] {
			return false
		}
	}
	for r := range rune(utf8.RuneSelf) {
		s.ascii[r] = s.find(r)
	}
	return true
}

// run is where the run ends that begins at i, of at most p.max characters.
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

// Each finds the runs; those that must end a line are tried once, not at each
// of their characters, which would take quadratic time.
func (p *runPattern) Each(text string, found func(start, end int) error) error {
	if !p.atEnd {
		return scanner(p.scan).Each(text, found)
	}
	inRun := 0
	return scanner(func(s string, i int) int {
		if i < inRun {
			return i
		}
		end, count := p.run(s, i)
		inRun = end
		if count == 0 {
			return i
		}
		if end == len(s) || s[end] == '\n' {
			return end
		}
		return p.lastLine(s, i, end)
	}).Each(text, found)
}

// lastLine is the end of a run that does not end a line, cut before its last
// newline: what comes before that one does.
func (p *runPattern) lastLine(s string, i, end int) int {
	if at := strings.LastIndexByte(s[i:end], '\n'); at > 0 {
		return i + at
	}
	return i
}
