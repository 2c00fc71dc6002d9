package testkit

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Budgets judges figures of the repository by a file of bounds: lines of a name and the most that
// it may be.
func Budgets(t *testing.T, path string, figures map[string]int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]int{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var name string
		var most int
		if _, err := fmt.Sscan(line, &name, &most); err != nil {
			t.Fatalf("%s: %q is no name with a bound: %v", path, line, err)
		}
		bounds[name] = most
	}
	for name, got := range figures {
		most, known := bounds[name]
		switch {
		case !known:
			t.Errorf("%s has no bound of %s, which is %d", path, name, got)
		case got > most:
			t.Errorf("%s is %d, and may be %d: make it less, or raise the bound in %s with the reason in the commit", name, got, most, path)
		}
	}
}
