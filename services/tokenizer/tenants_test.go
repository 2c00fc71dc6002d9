package tokenizer

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/schemas"
)

func TestParseTenants(t *testing.T) {
	got, err := parseTenants([]string{"acme:weight=4,waiting=100,requests=60,tokens=60000,log=1GiB", "*:waiting=10", "b-1:log=5"})
	want := map[string]Quota{
		"acme": {Weight: 4, Waiting: 100, RequestsPerMinute: 60, TokensPerMinute: 60000, LogBytes: 1 << 30}, "*": {Waiting: 10}, "b-1": {LogBytes: 5},
	}
	for name, q := range want {
		if got[name] != q {
			t.Errorf("%s has %+v, want %+v", name, got[name], q)
		}
	}
	if err != nil || len(got) != len(want) {
		t.Errorf("%d tenants, error %v", len(got), err)
	}
	for text, problem := range map[string]string{
		"acme": "no ':'", ":waiting=1": "0 bytes", "a.b:waiting=1": "other characters", "acme:": "none of weight", "acme:speed=3": `"speed" is none of`,
		"acme:waiting": "above 0", "acme:waiting=0": "above 0", "acme:weight=-1": "above 0", "acme:weight=4294967296": "above 0", "acme:tokens=1e3": "above 0", "acme:requests=0": "above 0",
		"acme:log=x": "above 0", "acme:waiting=1,": "none of weight",
	} {
		if _, err := parseTenants([]string{text}); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", text, err, problem)
		}
	}
	if _, err := parseTenants([]string{"a:waiting=1", "a:tokens=1"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a name twice: %v", err)
	}
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
		if schemas.CheckTenant(name) != nil && name != EveryoneElse {
			t.Errorf("tenant %q", name)
		}
		if q == (Quota{}) || q.Waiting < 0 || q.TokensPerMinute < 0 || q.LogBytes < 0 {
			t.Errorf("%+v", q)
		}
	})
}
