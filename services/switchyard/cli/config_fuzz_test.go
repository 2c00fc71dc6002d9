package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A configuration is flags' values by their names, or an error that names the file;
// reading it takes no more than the file has.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		"nats: nats://127.0.0.1:4222\nprompt: {max-tokens: 8}\n", "- a", "a: &x 1\nb: *x\n", "a: &x {b: *x}", "a: 1\na: 2", "", "\xff",
		"a: &a [1]\nb: &b {c: *a, d: *a}\ne: {f: *b, g: *b}\n",
	} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "c.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := loadConfig(path)
		if err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		for name, e := range c.entries {
			if len(c.entries) > maxEntries || len(e.keys) > maxKeys || strings.Join(e.keys, "-") != name {
				t.Fatalf("%d entries, one of them %q", len(c.entries), e.keys)
			}
			_, _ = e.value() // a mapping has none
		}
	})
}
