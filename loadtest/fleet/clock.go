package fleet

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Clock is the wall clock of a process that BuildClocked has built: it can be put
// wrong while the process runs. The monotonic clock, by which durations are
// measured, stays right, as on a host whose clock is set.
type Clock struct{ file *os.File }

// NewClock is a clock that is right.
func NewClock(t *testing.T) *Clock {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // all that matters was written
	c := &Clock{f}
	if err := c.Put(0); err != nil {
		t.Fatal(err)
	}
	return c
}

// Put has it show so much more than it is, in whole seconds.
func (c *Clock) Put(wrong time.Duration) error {
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(wrong/time.Second))
	if _, err := c.file.WriteAt(seconds[:], 0); err != nil {
		return fmt.Errorf("putting a clock wrong by %v: %w", wrong, err)
	}
	return nil
}

func (c *Clock) environment() []string {
	if c == nil {
		return nil
	}
	return []string{"CHAOS_CLOCK_FILE=" + c.file.Name()}
}

// BuildClocked is Build of the same sources with another standard library: the
// time of day is what the process's Clock says. It takes some minutes, once.
func BuildClocked(t *testing.T) string {
	t.Helper()
	overlay, err := clockOverlay(t)
	if err != nil {
		t.Fatalf("making clocks that can be put wrong: %v", err)
	}
	return build(t, t.TempDir(), "-overlay", overlay)
}

// wrongClock is a further file of the standard library's package time.
//
//go:embed testdata/wrongclock.go.txt
var wrongClock string

// clockOverlay has a line more in time.Now, and the file that has the function.
func clockOverlay(t *testing.T) (path string, err error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the standard library: %w", err)
	}
	library := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	return changed(t, filepath.Join(library, "time.go"), withWrongClock, filepath.Join(library, "wrongclock.go"), wrongClock)
}

// withWrongClock changes the source of time.Now.
func withWrongClock(source string) (string, error) {
	with, err := insert(source, "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "\tsec += wrongBy()\n")
	if err != nil {
		return "", fmt.Errorf("time.Now of this Go: %w; change withWrongClock, or leave out kind skew", err)
	}
	return with, nil
}
