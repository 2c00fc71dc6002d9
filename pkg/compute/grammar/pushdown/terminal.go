package pushdown

import "github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"

// terminal is what is read between two places: a text of an automaton, or one of some strings.
type terminal struct {
	dfa  *bytewise.DFA
	text *bytewise.Strings
}

// within is a place in a terminal: a state, and what was counted.
type within struct{ at, count int32 }

func (t *terminal) start() within {
	if t.dfa != nil {
		return within{at: t.dfa.Start}
	}
	at, count := t.text.Start()
	return within{at, count}
}

func (t *terminal) next(w within, b byte) within {
	if t.dfa != nil {
		return within{at: t.dfa.Next(w.at, b)}
	}
	at, count := t.text.Next(w.at, w.count, b)
	return within{at, count}
}

func (t *terminal) accepts(w within) bool {
	if t.dfa != nil {
		return t.dfa.Accepts(w.at)
	}
	return t.text.Accepts(w.at, w.count)
}

// least returns how many more bytes there are at least, or some more.
func (t *terminal) least(w within) int32 {
	if t.dfa != nil {
		return int32(min(t.dfa.Least(w.at), never))
	}
	return int32(min(t.text.Least(w.at, w.count), never))
}

// like returns a place where the next bytes are as at another one.
func (t *terminal) like(w within, bytes int) within {
	if t.text != nil {
		w.count = t.text.Like(w.at, w.count, bytes)
	}
	return w
}

// bytes is about how much it has, of what it does not share.
func (t *terminal) bytes() int {
	if t.dfa != nil {
		return t.dfa.Bytes()
	}
	return t.text.Bytes()
}
