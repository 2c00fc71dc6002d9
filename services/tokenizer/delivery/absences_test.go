package delivery

import (
	"fmt"
	"testing"
	"time"
)

func TestAbsences(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, tc := range []struct {
		name string
		at   []time.Duration
		want bool // of the last
	}{
		{"once", []time.Duration{0}, false},
		{"a caller that reconnects", []time.Duration{0, 200 * time.Millisecond, goneAfter - 1}, false},
		{"gone", []time.Duration{0, 200 * time.Millisecond, goneAfter}, true},
		{"gone, and tokens are slow", []time.Duration{0, absentFor - 1}, true},
		{"twice in a while", []time.Duration{0, absentFor}, false},
		{"gone later", []time.Duration{0, absentFor, absentFor + goneAfter}, true},
	} {
		a, got := absences{}, false
		for _, after := range tc.at {
			got = a.lasts("one", start.Add(after))
		}
		if got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// However many absences the server tells of, a bounded number is kept, and old ones make room.
func TestAbsencesAreBounded(t *testing.T) {
	a, start := absences{}, time.Unix(1000, 0)
	for i := range 2 * maxEnding {
		a.lasts(fmt.Sprint(i), start)
	}
	if len(a.since) != maxEnding {
		t.Errorf("%d are kept", len(a.since))
	}
	later := start.Add(absentFor)
	if a.lasts("new", later) || !a.lasts("new", later.Add(goneAfter)) || len(a.since) != 1 {
		t.Errorf("%d are kept, and a new one is not", len(a.since))
	}
}
