package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer"
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

// A tenant's bounds are numbers above 0 under a name that subjects can have.
func FuzzTenant(f *testing.F) {
	for _, s := range []string{"acme:weight=4,waiting=100,tokens=60000,log=1GiB", "*:waiting=1", "a.b:log=1", "acme:weight=4294967296", "acme:log=0", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, q, err := parseTenant(text)
		if err != nil {
			return
		}
		if schemas.CheckTenant(name) != nil && name != tokenizer.EveryoneElse {
			t.Errorf("tenant %q", name)
		}
		if q == (tokenizer.Quota{}) || q.Waiting < 0 || q.TokensPerMinute < 0 || q.LogBytes < 0 {
			t.Errorf("%+v", q)
		}
	})
}

// A count of bytes is not below 0, and the number itself when nothing is behind it.
func FuzzBytes(f *testing.F) {
	for _, s := range []string{"67108864", "64MiB", "4GB", "9223372036854775807TiB", "-1", "1e3", "0x10", " 1", "1 B", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseBytes("x", text)
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Errorf("%v is no mistake in usage", err)
			}
			return
		}
		if n < 0 || n > mostBytes || !strings.ContainsAny(text, "KMGTB") && fmt.Sprint(n) != text {
			t.Errorf("%q is %d", text, n)
		}
	})
}
