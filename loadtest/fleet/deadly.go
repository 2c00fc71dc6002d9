package fleet

import (
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Deadly begins the ids of requests that take a process of BuildDeadly down when it makes
// a token of theirs.
const Deadly = "deadly-"

// BuildDeadly is Build of an attention service that one of its requests can kill, as one
// does that finds a fault of the machine or of a library.
func BuildDeadly(t *testing.T) string {
	t.Helper()
	path, err := deadlyOverlay(t)
	if err != nil {
		t.Fatalf("making a request deadly: %v", err)
	}
	return build(t, t.TempDir(), "-overlay", path)
}

// deadlyRequest is a further file of attention's engine.
//
//go:embed testdata/deadly.go.txt
var deadlyRequest string

func deadlyOverlay(t *testing.T) (path string, err error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", engine).Output()
	if err != nil {
		return "", fmt.Errorf("looking for the source of attention's engine: %w", err)
	}
	dir := strings.TrimSpace(string(out))
	return changed(t, filepath.Join(dir, "worker.go"), withDeadly, filepath.Join(dir, "deadly.go"), deadlyRequest)
}

// withDeadly changes what is done with a token's logits.
func withDeadly(source string) (string, error) {
	with, err := insert(source, "func (p *part) settle(sampler *sampling.Sampler, at int, logits []float32) (got outcome) {\n", "\tdieOf(p.s)\n")
	if err != nil {
		return "", fmt.Errorf("attention's worker: %w; change withDeadly", err)
	}
	return with, nil
}
