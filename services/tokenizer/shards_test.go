package tokenizer

import (
	"errors"
	"testing"
	"time"
)

// However many shards look at once, only those beyond the share go.
func TestSpare(t *testing.T) {
	var h shardSet
	for shard := range 8 {
		h.set(shard, true)
	}
	gone := 0
	for shard := range 8 {
		if h.spare(shard, 4) {
			gone++
		}
	}
	if gone != 4 {
		t.Errorf("%d of 8 shards given up for a share of 4", gone)
	}
}

func TestBacklog(t *testing.T) {
	var b backlog
	now, looks := time.Now(), 0
	look := func(n int, err error) func() (int, error) {
		return func() (int, error) { looks++; return n, err }
	}
	if n := b.size(now, look(5, nil)); n != 5 {
		t.Errorf("%d wait", n)
	}
	b.add()
	if n := b.size(now.Add(backlogAge/2), look(9, nil)); n != 6 || looks != 1 {
		t.Errorf("%d wait after %d looks; what was added counts at once", n, looks)
	}
	if n := b.size(now.Add(2*backlogAge), look(0, errors.New("server away"))); n != 6 {
		t.Errorf("%d wait after a look that failed", n)
	}
	if n := b.size(now.Add(4*backlogAge), look(2, nil)); n != 2 || looks != 3 {
		t.Errorf("%d wait after %d looks", n, looks)
	}
}
