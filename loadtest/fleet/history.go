package fleet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// errAbsent says that the repository does not have a revision.
var errAbsent = errors.New("it is not in this repository, as in a shallow clone or in an archive of the sources")

// BuildAt builds the service of an earlier revision, a commit or a tag, once for all runs,
// and returns the folder that Settings.Programs takes with programs of this one beside it.
// It skips the test where the repository lacks the revision.
func BuildAt(t *testing.T, programs, revision string) string {
	t.Helper()
	binary, err := buildAt(t, revision)
	if errors.Is(err, errAbsent) {
		t.Skipf("building revision %s: %v", revision, err)
	}
	if err != nil {
		t.Fatalf("building revision %s: %v", revision, err)
	}
	dir := t.TempDir()
	for name, path := range map[string]string{"switchyard": binary, "nats-server": filepath.Join(programs, "nats-server")} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// buildAt returns the path of a revision's binary, which is kept by its commit.
func buildAt(t *testing.T, revision string) (binary string, err error) {
	t.Helper()
	root, err := output(t, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errAbsent, err)
	}
	commit, err := output(t, root, "git", "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		return "", errAbsent
	}
	binary = filepath.Join(root, ".cache", "versions", commit, "switchyard")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	sources := t.TempDir()
	if _, err := output(t, root, "sh", "-c", `git archive "$1" | tar -x -C "$2"`, "sh", commit, sources); err != nil {
		return "", err
	}
	// Under another name first: what was interrupted is no binary of that commit.
	made := filepath.Join(sources, "made")
	if _, err := output(t, sources, "env", "CGO_ENABLED=0", "go", "build", "-ldflags", "-X main.version="+revision, "-o", made, "./services/switchyard"); err != nil {
		return "", err
	}
	return binary, keep(made, binary)
}

// keep copies a program, so that it is there whole or not at all.
func keep(made, binary string) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(made)
	if err != nil {
		return err
	}
	partial := fmt.Sprintf("%s.%d", binary, os.Getpid())
	if err := os.WriteFile(partial, data, 0o755); err != nil { //nolint:gosec // a program
		return err
	}
	return os.Rename(partial, binary)
}

func output(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
