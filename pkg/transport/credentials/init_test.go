package credentials_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
)

// mount puts an empty file system at a folder, where that is let.
func mount(t *testing.T, path string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=4m", "none", path).CombinedOutput(); err != nil {
		t.Skipf("nothing can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "umount", path).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// longHost is of a server whose settings no file system has a name for: they are the last
// that is made.
var longHost = strings.Repeat("h", 253)

// A folder that is not there is made, and one that is empty filled, whatever leads to it;
// what fails leaves it as it was.
func TestPlaces(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		refused string
	}{
		{"absent", func(*testing.T, string) {}, ""},
		{"empty", mkdir, ""},
		{"link to empty", func(t *testing.T, path string) { mkdir(t, path+"2"); link(t, path, path+"2") }, ""},
		{"mount point", func(t *testing.T, path string) { mkdir(t, path); mount(t, path) }, ""},
		{"link to nothing", func(t *testing.T, path string) { link(t, path, path+"2") }, "a link to what is not there"},
		{"not empty", func(t *testing.T, path string) { mkdir(t, path); mkdir(t, filepath.Join(path, "x")) }, "not empty"},
		{"link to not empty", func(t *testing.T, path string) {
			mkdir(t, path+"2")
			mkdir(t, filepath.Join(path+"2", "x"))
			link(t, path, path+"2")
		}, "not empty"},
		{"somebody fills it", func(t *testing.T, path string) { mkdir(t, path); mkdir(t, filepath.Join(path, ".auth-new")) }, "not empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "auth")
			tc.prepare(t, path)
			before := tree(t, filepath.Dir(path))
			fails := settings()
			fails.Servers = []string{"a", "b", longHost}
			if _, err := credentials.Init(path, fails); err == nil {
				t.Error("settings were written that have no name")
			}
			if after := tree(t, filepath.Dir(path)); after != before {
				t.Errorf("a failure has left %s of %s", after, before)
			}
			_, err := credentials.Init(path, settings())
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) || tree(t, filepath.Dir(path)) != before {
					t.Errorf("%v, and there is %s", err, tree(t, filepath.Dir(path)))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := credentials.Ensure(path, settings()); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(filepath.Join(path, ".auth-*")); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// tree lists what is at and below a folder, through links as well.
func tree(t *testing.T, root string) string {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		names = append(names, path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			names = append(names, tree(t, path))
		}
	}
	return strings.Join(names, " ")
}
