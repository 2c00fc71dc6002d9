package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/check"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
)

// planted is a fault of the system that shows when both of two kinds go wrong.
func planted(r *Run) bool {
	did := func(k schedule.Kind) bool {
		return slices.ContainsFunc(r.Hits, func(h Hit) bool { return h.Kind == k && !h.Skipped })
	}
	return did(schedule.Drain) && did(schedule.Reset)
}

// among are faults of which two together show what is planted.
const among = `1s kill gate/0 300ms
2s hang expert/1 500ms
4s drain gate/1 0s
8s latency tokenizer/0 1s
20s reset attention/1 500ms
21s kill aggregator/0 300ms
`

func parse(t *testing.T, text string) schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A failing schedule is made as short as the runs suffice for, and what is told is what
// was played last and failed.
func TestShorter(t *testing.T) {
	whole := parse(t, among)
	violation := func(at time.Duration) asking.Result {
		return asking.Result{Violations: []check.Violation{{At: at + time.Minute}, {At: at}}}
	}
	for _, tc := range []struct {
		name  string
		load  asking.Result // of the first run, whose schedule began at 10s
		fails func(schedule.Schedule) bool
		runs  int
		want  string
	}{
		{"two of six", violation(40 * time.Second), both, 50, "3s drain gate/1 0s\n6s reset attention/1 500ms\n"},
		{"seen before the last", violation(29500 * time.Millisecond), both, 50, "3s drain gate/1 0s\n6s reset attention/1 500ms\n"},
		{"seen too early to be true", violation(12 * time.Second), both, 50, "3s drain gate/1 0s\n6s reset attention/1 500ms\n"},
		{"seen before any", violation(time.Second), both, 50, "3s drain gate/1 0s\n6s reset attention/1 500ms\n"},
		{"held at the end", asking.Result{}, both, 50, "3s drain gate/1 0s\n6s reset attention/1 500ms\n"},
		{"never again", violation(40 * time.Second), func(schedule.Schedule) bool { return false }, 50, among},
		{"always", violation(40 * time.Second), func(schedule.Schedule) bool { return true }, 50, "1s kill gate/0 300ms\n"},
		{"few runs", violation(40 * time.Second), both, 2, among},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first := &Run{Load: tc.load}
			for _, f := range whole {
				first.Hits = append(first.Hits, Hit{Fault: f, Began: f.At + 10*time.Second})
			}
			c, played, failed := config{shrink: tc.runs}, 0, ""
			c.Every = 3 * time.Second
			got := c.shorter(whole, first, func(title string, part schedule.Schedule) *Run {
				played++
				r := &Run{}
				if tc.fails(part) {
					r.Left, failed = []string{"something"}, part.String()
				}
				return r
			})
			if got.String() != tc.want || failed != "" && got.String() != failed || played > tc.runs {
				t.Errorf("after %d runs\n%swant\n%sfailed last\n%s", played, got, tc.want, failed)
			}
		})
	}
}

// both reports whether a schedule shows what is planted.
func both(s schedule.Schedule) bool { return s.Has(schedule.Drain) && s.Has(schedule.Reset) }

// TestShrinksWhatIsPlanted has real processes, and a fault that the checker is told of.
func TestShrinksWhatIsPlanted(t *testing.T) {
	c := settingsOf(t, wantedMinutes(t))
	if c.shrink == 0 {
		t.Skip("this takes minutes: set SWITCHYARD_CHAOS_SHRINK to 20")
	}
	judged := func(r *Run) *Run {
		if planted(r) {
			r.Problems = append(r.Problems, "the planted fault")
		}
		return r
	}
	whole := parse(t, among)
	first := judged(c.playPart(t, "all of it", whole))
	if !first.Failed() {
		t.Fatal("what is planted does not show")
	}
	tries := 0
	got := c.shorter(whole, first, func(title string, part schedule.Schedule) *Run {
		tries++
		return judged(c.playPart(t, title, part))
	})
	t.Logf("%d faults became %d in %d tries:\n%s", len(whole), len(got), tries, got)
	if want := "3s drain gate/1 0s\n6s reset attention/1 500ms\n"; got.String() != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
