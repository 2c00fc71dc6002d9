package top

import (
	"strings"
	"testing"
	"time"
)

// Means are those of what ended between two looks, as far as anything did.
func TestTopMeans(t *testing.T) {
	look := func(seconds, count float64) *Snapshot {
		return &Snapshot{Members: []Member{{Stats: map[string]float64{statSeconds: seconds, statFinished: count}}}}
	}
	for _, tt := range []struct {
		name        string
		before, now *Snapshot
		want        string
	}{
		{"none yet", nil, look(0, 0), "-"},
		{"since the start", nil, look(6, 4), "1.5 s"},
		{"between", look(6, 4), look(6.4, 8), "100 ms"},
		{"short", look(6, 4), look(6.0008, 8), "200 µs"},
		{"nothing new", look(6, 4), look(6, 4), "1.5 s"},
		{"a replica left", look(6, 4), look(1, 2), "500 ms"},
	} {
		if got := tt.now.mean(tt.before, statSeconds, statFinished); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTopRates(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before := &Snapshot{Time: at, Layers: []Layer{{0, []uint64{100, 500}, []uint64{10, 50}}}}
	now := &Snapshot{Time: at.Add(2 * time.Second), Layers: []Layer{{0, []uint64{900, 800, 700}, []uint64{30, 20, 8}}}}
	got := now.Layers[0].rate(before, now.since(before))
	if got[0] != 10 || got[1] != 0 || got[2] != 4 {
		t.Errorf("got %v, want [10 0 4]", got)
	}
	if total := now.Layers[0].rate(nil, 0); total[0] != 900 || total[2] != 700 {
		t.Errorf("totals are %v", total)
	}
	if text := now.View(before); !strings.Contains(text, "ROWS/S") || !strings.Contains(text, "(no replica is alive)") {
		t.Errorf("got\n%s", text)
	}
}
