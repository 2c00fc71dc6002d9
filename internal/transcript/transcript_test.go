package transcript

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// adder adds up what it is told.
func adder(testing.TB) Machine {
	sum := 0
	return func(t testing.TB, e *Event) []string {
		switch e.Name {
		case "add":
			sum += e.Int(t, "n", 1) * int(e.Duration(t, "seconds", time.Second).Seconds())
			return []string{fmt.Sprintf("%s has %d", e.Arg(t, 0), sum)}
		case "quiet":
			return nil
		}
		return []string{"no event"}
	}
}

func TestRun(t *testing.T) { Run(t, "testdata/*.txt", adder) }

func TestReplay(t *testing.T) {
	for name, tc := range map[string]struct{ in, out, err string }{
		"decisions are made anew": {"add a\n  stale\n  more\nquiet\n", "add a\n  a has 1\nquiet\n", ""},
		"comments stay":           {"# one\n\nadd a n=2\n# two", "# one\n\nadd a n=2\n  a has 2\n# two\n", ""},
		"quotes":                  {`add "two words" n="3"` + "\n", `add "two words" n="3"` + "\n  two words has 3\n", ""},
		"unknown option":          {"quiet n=3 m=2\n", "", "f:1: quiet has no option m, n"},
		"no end of a quote":       {"quiet\nadd \"a\n", "", "f:2: a quote does not end"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Replay(t, "f", tc.in, adder(t))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, want %s", err, tc.err)
				}
			} else if err != nil || got != tc.out {
				t.Errorf("%q, %v, want %q", got, err, tc.out)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	got := difference("f", "a\nb\n", "a\nc\n")
	if want := "f:2 is\nb\nand the machine says\nc"; got != want {
		t.Errorf("%q", got)
	}
	if got := difference("f", "a", "a\nb"); !strings.Contains(got, "(the end)") {
		t.Errorf("%q", got)
	}
}
