package cli

import (
	"strings"
	"testing"
)

func TestSemver(t *testing.T) {
	for version, want := range map[string]string{
		release:               release,
		release + "+0abc123":  release + "+0abc123",
		"v1.2.3":              "1.2.3",
		"v1.2.3-4-gabc1234":   "1.2.3-4-gabc1234",
		"1.2.3-rc.1":          "1.2.3-rc.1",
		"dev":                 "0.0.0+dev",
		"0abc123":             "0.0.0+0abc123",
		"abc123-dirty":        "0.0.0+abc123-dirty",
		"v1.2":                "0.0.0+v1-2",
		"feature/x-3-gabc123": "0.0.0+feature-x-3-gabc123",
	} {
		if got := Semver(version); got != want || !semantic.MatchString(got) {
			t.Errorf("%s becomes %s, want %s", version, got, want)
		}
	}
}

func TestDescribed(t *testing.T) {
	for module, want := range map[string]string{"": release, "(devel)": release, "v1.2.3": "v1.2.3", "v0.0.0-20260101000000-abc123abc123+dirty": release + "+20260101000000-abc123abc123-dirty"} {
		if got := described(module); got != want || !semantic.MatchString(strings.TrimPrefix(got, "v")) {
			t.Errorf("%q is %q", module, got)
		}
	}
}
