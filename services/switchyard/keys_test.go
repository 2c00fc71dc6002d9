package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/services/gateway/apikeys"
)

// A key is made, listed, renewed and taken out, and the file never has it.
func TestKeysCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	run := func(code int, args ...string) string {
		t.Helper()
		got := invoke("", append([]string{"keys", args[0], "--http-keys", file}, args[1:]...)...)
		if got.Code != code {
			t.Fatalf("%v: %d %s", args, got.Code, got.Err)
		}
		if code != 0 {
			return got.Err
		}
		return strings.TrimSpace(got.Out)
	}
	list := func() (all []listedKey) {
		t.Helper()
		for _, text := range strings.Split(run(0, "list", "--json"), "\n") {
			var k listedKey
			if err := json.Unmarshal([]byte(text), &k); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			all = append(all, k)
		}
		return all
	}
	secret := run(0, "add", "--tenant", "acme", "--class", "high", "--right", "read", "--models", "demo,mixtral", "--expires", "30d", "the web shop's")
	other := run(0, "add")
	all := list()
	if len(all) != 2 || all[0].Tenant != "acme" || all[0].Class != "high" || all[0].Right != "read" || len(all[0].Models) != 2 || all[0].Note != "the web shop's" || all[0].Expired || all[1].Tenant != "default" || all[1].Expires != "" {
		t.Errorf("%+v", all)
	}
	if id := (apikeys.Key{Hash: apikeys.HashOf(secret)}).ID(); all[0].ID != id {
		t.Errorf("id %s, want %s", all[0].ID, id)
	}
	renewed := run(0, "rotate", all[1].ID[:6], "--keep", "1h")
	if again := list(); len(again) != 3 || again[1].ID != all[1].ID || again[1].Expires == "" || again[2].Expires != "" {
		t.Errorf("%+v", again)
	}
	run(0, "revoke", all[1].ID)
	run(0, "rotate", all[0].ID)
	if again := list(); len(again) != 2 || again[0].ID == all[0].ID || again[0].Note != all[0].Note {
		t.Errorf("%+v", again)
	}
	if table := run(0, "list"); !strings.Contains(table, "demo,mixtral") || !strings.Contains(table, "never") {
		t.Errorf("%s", table)
	}
	data, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	for _, one := range []string{secret, other, renewed} {
		if len(one) < 40 || strings.Contains(string(data), one) {
			t.Errorf("%q in %s", one, data)
		}
	}
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, tc := range []struct {
		code int
		says string
		args []string
	}{
		{1, "no key has the id", []string{"revoke", "ffffffffffff"}}, {1, "no key has the id", []string{"rotate", "x"}},
		{2, "class", []string{"add", "--class", "urgent"}}, {2, "--expires", []string{"add", "--expires", "2020-01-01"}}, {2, "--expires", []string{"add", "--expires", "soon"}},
		{2, "--right", []string{"add", "--right", "all"}}, {2, "no name of a model", []string{"add", "--models", "a.b"}}, {2, "--keep", []string{"rotate", all[0].ID, "--keep", "-1s"}},
	} {
		if text := run(tc.code, tc.args...); !strings.Contains(text, tc.says) {
			t.Errorf("%v: %s, want %q", tc.args, text, tc.says)
		}
	}
}

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 5, time.UTC)
	for text, want := range map[string]string{"": "0001-01-01T00:00:00Z", "1h": "2026-01-01T13:00:00Z", "30d": "2026-01-31T12:00:00Z", "2027-01-31": "2027-01-31T00:00:00Z", "2027-01-31T01:02:03+01:00": "2027-01-31T00:02:03Z"} {
		if got, err := expiry(text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0s", "-1h", "d", "-3d", "0d", "2026-01-01", "x"} {
		if got, err := expiry(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
