package probe

import (
	"errors"
	"testing"
	"time"
)

func TestSequences(t *testing.T) {
	var b Sequences
	now := time.Now()
	looks := 0
	for _, c := range []struct {
		name  string
		after time.Duration // the last look that was too old
		add   uint64
		look  queued
		err   error
		want  int
		looks int
	}{
		{name: "the first look: nobody knows whose they are", look: queued{pending: 5, given: 4}, want: 5, looks: 1},
		{name: "queued since", after: countAge / 2, add: 10, want: 6, looks: 1},
		{name: "queued before the look, and told after it", after: countAge / 2, add: 9, want: 6, looks: 1},
		{name: "a look that fails", after: 2 * countAge, err: errors.New("server away"), want: 6, looks: 2},
		{name: "another look", after: 4 * countAge, look: queued{pending: 3, given: 9}, want: 1, looks: 3},
		{name: "counted by that", after: 4 * countAge, add: 12, want: 2, looks: 3},
		{name: "many that nobody has queued", after: 6 * countAge, look: queued{pending: 300_000, given: 11, held: 7}, want: 8, looks: 4},
		{name: "fewer than were queued", after: 8 * countAge, look: queued{given: 11}, want: 0, looks: 5},
		{name: "in a stream that was made anew", after: 10 * countAge, look: queued{given: 1}, want: 0, looks: 6},
		{name: "and queued there", after: 10 * countAge, add: 2, want: 1, looks: 6},
	} {
		if c.add > 0 {
			b.Add(c.add)
		}
		n := b.size(now.Add(c.after), func() (queued, others, error) { looks++; return c.look, others{}, c.err })
		if n != c.want || looks != c.looks {
			t.Errorf("%s: %d wait after %d looks, want %d after %d", c.name, n, looks, c.want, c.looks)
		}
	}
}

// What other tokenizers have queued counts as they announce it, at least as much as this
// one has, and, when one of them goes away, all that was there.
func TestSequencesBesideOthers(t *testing.T) {
	var b Sequences
	b.take(queued{given: 10}, others{})
	b.Add(11)
	for _, c := range []struct {
		name   string
		look   queued
		others others
		want   int
	}{
		{"one that has announced nothing yet", queued{given: 10, pending: 100}, others{1, 0}, 2},
		{"one with more", queued{given: 10, pending: 100}, others{1, 30}, 31},
		{"one that claims more than there are", queued{given: 10, pending: 100}, others{1, 1 << 30}, 100},
		{"it has gone", queued{given: 10, pending: 100}, others{}, 100},
		{"what it left was given", queued{given: 110, pending: 300}, others{}, 0},
	} {
		if b.take(c.look, c.others); b.waiting() != c.want {
			t.Errorf("%s: %d wait, want %d", c.name, b.waiting(), c.want)
		}
	}
}
