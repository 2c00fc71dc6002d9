package tokenizer

import (
	"slices"
	"strings"
)

// StopMatcher ends a stream of text at the first stop string. What it emits
// never holds a stop string nor the beginning of one that follows, and does not
// depend on how the text was cut into chunks. It is not safe for concurrent use.
type StopMatcher struct {
	stops   []string
	held    string // may begin a stop string
	stopped bool
}

// NewStopMatcher looks for stops; empty ones are ignored.
func NewStopMatcher(stops []string) *StopMatcher {
	kept := slices.DeleteFunc(slices.Clone(stops), func(s string) bool { return s == "" })
	return &StopMatcher{stops: kept}
}

// Push takes the next text and returns what can be shown. stopped is true once
// a stop string is complete: the text ends before it, and what is pushed later
// is dropped. Of several, the one that is complete first counts, and of those
// the longest.
func (m *StopMatcher) Push(text string) (emit string, stopped bool) {
	if m.stopped {
		return "", true
	}
	text = m.held + text
	if start, found := m.find(text); found {
		m.held, m.stopped = "", true
		return text[:start], true
	}
	cut := len(text) - m.hold(text)
	m.held = text[cut:]
	return text[:cut], false
}

// Pass takes text in which no stop string counts that is complete there. One that only begins
// in it may end what follows.
func (m *StopMatcher) Pass(text string) (emit string) {
	if m.stopped {
		return ""
	}
	text = m.held + text
	cut := len(text) - m.hold(text)
	m.held = text[cut:]
	return text[:cut]
}

func (m *StopMatcher) find(text string) (start int, found bool) {
	end := len(text) + 1
	for _, stop := range m.stops {
		i := strings.Index(text, stop)
		if i < 0 {
			continue
		}
		if e := i + len(stop); e < end || e == end && i < start {
			start, end, found = i, e, true
		}
	}
	return start, found
}

// hold returns the length of the longest end of text that may begin a stop string.
func (m *StopMatcher) hold(text string) int {
	longest := 0
	for _, stop := range m.stops {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Flush ends the text and returns what was held back; nothing after a stop.
func (m *StopMatcher) Flush() string {
	held := m.held
	m.held = ""
	return held
}
