package typecheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Mistakes in files of another system, which this one's compiler never reads.
func TestCheckFinds(t *testing.T) {
	for name, tt := range map[string]struct {
		source string
		want   string // part of the error; "" for none
	}{
		"right":             {"package a\n\nimport \"syscall\"\n\nvar _ = syscall.Kqueue\n", ""},
		"a missing name":    {"package a\n\nimport \"syscall\"\n\nvar _ = syscall.EpollCreate\n", "undefined: syscall.EpollCreate"},
		"a wrong body":      {"package a\n\nfunc f() int { return \"one\" }\n", "a_darwin.go:3"},
		"a syntax error":    {"package a\n\nfunc f( {\n", "a_darwin.go:3"},
		"a missing package": {"package a\n\nimport _ \"none/such\"\n", "none/such"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module a\n\ngo 1.26\n", "a.go": "package a\n", "a_darwin.go": tt.source} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := Check(t.Context(), dir, "darwin", "arm64", "./...")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDarwin(t *testing.T) {
	const root = "../.."
	// A cached result holds while what the test itself has read is the same, so it reads the
	// names of all files, which "go list" only reads in a process of its own.
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), root, "darwin", "arm64", "./..."); err != nil {
		t.Error(err)
	}
}
