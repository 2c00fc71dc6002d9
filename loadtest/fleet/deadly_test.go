package fleet

import (
	"os"
	"strings"
	"testing"
)

// Attention's source has the place where a request can be made deadly.
func TestDeadly(t *testing.T) {
	source, err := os.ReadFile("../../services/attention/engine/worker.go")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := withDeadly(string(source))
	if err != nil || strings.Count(changed, "(got outcome) {\n\tdieOf(p.s)\n") != 1 {
		t.Errorf("nothing is changed: %v", err)
	}
	if _, err := withDeadly("package engine"); err == nil {
		t.Error("a source without such a place is taken")
	}
}
