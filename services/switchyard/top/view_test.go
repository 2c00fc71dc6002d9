package top

import (
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
)

// Means are those of what ended while members were heard, as far as anything did.
func TestTopMeans(t *testing.T) {
	replica := func(seconds, count, grownSeconds, grownCount float64) Member {
		return Member{Stats: map[string]float64{members.RequestSeconds: seconds, members.Finished: count}, grown: map[string]float64{members.RequestSeconds: grownSeconds, members.Finished: grownCount}}
	}
	for _, tt := range []struct {
		name    string
		members []Member
		want    string
		recent  bool
	}{
		{"none yet", []Member{replica(0, 0, 0, 0)}, "-", false},
		{"nobody", nil, "-", false},
		{"since the start", []Member{replica(6, 4, 0, 0)}, "1.5 s", false},
		{"since then", []Member{replica(6.4, 8, 0.4, 4), replica(9, 1, 0, 0)}, "100 ms", true},
		{"short", []Member{replica(6, 8, 0.0008, 4)}, "200 µs", true},
	} {
		s := &Snapshot{Members: tt.members}
		if got, recent := s.meanOf(members.RequestSeconds, members.Finished); seconds(got) != tt.want || recent != tt.recent {
			t.Errorf("%s: %s, %v, want %s, %v", tt.name, seconds(got), recent, tt.want, tt.recent)
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
