package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// This Go's clock can be put wrong, and one that is unknown is refused.
func TestWrongClock(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := withWrongClock(string(source))
	if err != nil || strings.Count(changed, "sec += wrongBy()\n\tif mono == 0") != 1 {
		t.Errorf("the time of day is not changed: %v", err)
	}
	if _, err := withWrongClock("package time"); err == nil {
		t.Error("a Go without such a clock is taken")
	}
}
