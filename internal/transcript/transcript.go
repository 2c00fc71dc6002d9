// Package transcript replays what happens to a state machine from a file that
// people can read, and compares what it decides with what the file says.
//
//	# A prompt is cut to what a microbatch may have.
//	engine workers=1 rows=8
//	admit r prompt=20 max=3
//	  r has its pages (63 of 64 are free)
//	  worker 0 takes r 0..7
//
// A line at the margin is an event: a name, arguments, and options as key=value,
// with values in Go's quotes where they have spaces. The indented lines below it
// are what it makes the machine decide. Comments and blank lines are left alone.
// With -rewrite the decisions are written anew; the difference is for review.
package transcript

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

var rewrite = flag.Bool("rewrite", false, "write the decisions of transcripts anew")

// Machine takes events and tells what it decided, a line each.
type Machine func(t testing.TB, e *Event) []string

// Run replays all files that a pattern matches, each with a machine of its own.
func Run(t *testing.T, pattern string, start func(t testing.TB) Machine) {
	t.Helper()
	each(t, pattern, func(t *testing.T, file string) { replay(t, file, start(t)) })
}

// RunInBubble is Run for machines with goroutines: each file has a synctest bubble,
// whose clock goes on when all of them wait.
func RunInBubble(t *testing.T, pattern string, start func(t testing.TB) Machine) {
	t.Helper()
	each(t, pattern, func(t *testing.T, file string) {
		synctest.Test(t, func(t *testing.T) { replay(t, file, start(t)) })
	})
}

func each(t *testing.T, pattern string, do func(t *testing.T, file string)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript matches %s: %v", pattern, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) { do(t, file) })
	}
}

func replay(t *testing.T, file string, m Machine) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Replay(t, file, string(want), m)
	switch {
	case err != nil:
		t.Fatal(err)
	case got == string(want):
	case *rewrite:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s (if it is right now, run the test with -rewrite)", difference(file, string(want), got))
	}
}

// Replay returns a text with the decisions that the machine takes now.
func Replay(t testing.TB, file, text string, m Machine) (string, error) {
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, " ") && strings.TrimSpace(line) != "" {
			continue
		}
		out.WriteString(line + "\n")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		e, err := parse(line)
		if err != nil {
			return "", fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		e.at = fmt.Sprintf("%s:%d", file, i+1)
		for _, d := range m(t, e) {
			fmt.Fprintf(&out, "  %s\n", d)
		}
		if left := e.unused(); left != "" {
			return "", fmt.Errorf("%s: %s has no option %s", e.at, e.Name, left)
		}
	}
	return out.String(), nil
}

// difference shows the first line that differs.
func difference(file, want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if a, b := lineOf(w, i), lineOf(g, i); a != b {
			return fmt.Sprintf("%s:%d is\n%s\nand the machine says\n%s", file, i+1, a, b)
		}
	}
	return file + " ends otherwise"
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the end)"
}
