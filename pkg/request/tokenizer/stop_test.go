package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestStopMatcher(t *testing.T) {
	tests := []struct {
		stops  []string
		chunks []string
		want   []string // emitted a chunk, then by Flush
		found  bool
	}{
		{nil, []string{"a", "b"}, []string{"a", "b", ""}, false},
		{[]string{""}, []string{"a"}, []string{"a", ""}, false},
		{[]string{"END"}, []string{"so E", "N", "D more"}, []string{"so ", "", "", ""}, true},
		{[]string{"END"}, []string{"E", "EN", "X"}, []string{"", "E", "ENX", ""}, false},
		{[]string{"END"}, []string{"the EN"}, []string{"the ", "EN"}, false},
		{[]string{"\n\n"}, []string{"a\n", "\nb"}, []string{"a", "", ""}, true},
		{[]string{"abc", "b"}, []string{"a", "b"}, []string{"", "a", ""}, true},
		{[]string{"bc", "abc"}, []string{"xab", "c"}, []string{"x", "", ""}, true},
		{[]string{"🙂"}, []string{"hi 🙂🙂"}, []string{"hi ", ""}, true},
		{[]string{"a"}, []string{"bab", "more"}, []string{"b", "", ""}, true},
	}
	for _, tt := range tests {
		m := NewStopMatcher(tt.stops)
		var got []string
		found := false
		for _, chunk := range tt.chunks {
			var emit string
			emit, found = m.Push(chunk)
			got = append(got, emit)
		}
		got = append(got, m.Flush())
		if !slices.Equal(got, tt.want) || found != tt.found {
			t.Errorf("%q in %q: got %q, %v", tt.stops, tt.chunks, got, found)
		}
	}
}

// cutAt is what a stream should show, found the slow way: after every byte, is
// one of the stops at the end?
func cutAt(text string, stops []string) (string, bool) {
	for end := range len(text) + 1 {
		longest := 0
		for _, stop := range stops {
			if strings.HasSuffix(text[:end], stop) {
				longest = max(longest, len(stop))
			}
		}
		if longest > 0 {
			return text[:end-longest], true
		}
	}
	return text, false
}

// What passes ends nothing, but what begins in it may.
func TestPass(t *testing.T) {
	m := NewStopMatcher([]string{"ab"})
	if got := m.Pass("xab-a"); got != "xab-" {
		t.Errorf("%q passed", got)
	}
	if got := m.Pass("c"); got != "ac" {
		t.Errorf("%q passed", got)
	}
	if got := m.Pass("a"); got != "" {
		t.Errorf("%q passed", got)
	}
	if got, stopped := m.Push("bc"); got != "" || !stopped {
		t.Errorf("%q, %v", got, stopped)
	}
	if got := m.Pass("x"); got != "" {
		t.Errorf("%q passed behind the end", got)
	}
}

func TestStopMatcherWhateverTheChunks(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		stops := rapid.SliceOfN(word, 0, 3).Draw(t, "stops")
		m := NewStopMatcher(stops)
		var all, got strings.Builder
		stopped := false
		for _, chunk := range rapid.SliceOf(word).Draw(t, "chunks") {
			var emit string
			all.WriteString(chunk)
			emit, stopped = m.Push(chunk)
			got.WriteString(emit)
			shown, _ := cutAt(all.String(), stops)
			if !strings.HasPrefix(shown, got.String()) {
				t.Fatalf("showed %q too early: the text is %q", got.String(), shown)
			}
		}
		got.WriteString(m.Flush())
		want, found := cutAt(all.String(), stops)
		if got.String() != want || stopped != found {
			t.Fatalf("%q in %q: got %q, %v, want %q, %v", stops, all.String(), got.String(), stopped, want, found)
		}
	})
}
