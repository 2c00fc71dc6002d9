package tokenizer

import (
	"errors"
	"testing"
	"time"
)

func TestBacklog(t *testing.T) {
	var b backlog
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
		{name: "the first look", look: queued{waiting: 5, last: 9}, want: 5, looks: 1},
		{name: "queued since", after: backlogAge / 2, add: 10, want: 6, looks: 1},
		{name: "queued before the look, and told after it", after: backlogAge / 2, add: 9, want: 6, looks: 1},
		{name: "a look that fails", after: 2 * backlogAge, err: errors.New("server away"), want: 6, looks: 2},
		{name: "another look", after: 4 * backlogAge, look: queued{waiting: 2, last: 12}, want: 2, looks: 3},
		{name: "counted by that", after: 4 * backlogAge, add: 12, want: 2, looks: 3},
		{name: "in a stream that was made anew", after: 6 * backlogAge, look: queued{last: 1}, want: 0, looks: 4},
		{name: "and queued there", after: 6 * backlogAge, add: 2, want: 1, looks: 4},
	} {
		if c.add > 0 {
			b.add(c.add)
		}
		n := b.size(now.Add(c.after), func() (queued, error) { looks++; return c.look, c.err })
		if n != c.want || looks != c.looks {
			t.Errorf("%s: %d wait after %d looks, want %d after %d", c.name, n, looks, c.want, c.looks)
		}
	}
}
