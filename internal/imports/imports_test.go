package imports

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestRepository checks every import of this repository.
func TestRepository(t *testing.T) {
	list, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 100 {
		t.Fatalf("only %d imports were found: the repository is elsewhere", len(list))
	}
	for _, v := range Check(Rules, list) {
		t.Error(v)
	}
}

// TestRulesCanFail wants each rule to find the import that it calls bad, and
// to have a reason.
func TestRulesCanFail(t *testing.T) {
	for _, r := range Rules {
		broken := Check([]Rule{r}, []Import{{From: r.Bad[0], To: r.Bad[1]}})
		if len(broken) != 1 || r.Reason == "" {
			t.Errorf("the rule %q does not find %v", r.Reason, r.Bad)
		}
	}
}

// TestReadFinds writes a bad repository and wants its fault found, in a file
// that this machine would not build.
func TestReadFinds(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"services/gate/gate.go":                "//go:build cuda\n\npackage gate\n\nimport _ \"" + Module + "/services/expert\"\n",
		"services/gate/gate_test.go":           "package gate_test\n\nimport _ \"" + Module + "/services/gate\"\n",
		"services/gate/door/door.go":           "package door\n\nimport _ \"" + Module + "/services/gate/hinge\"\n",
		"services/switchyard/main.go":          "package main\n\nimport _ \"" + Module + "/services/gate\"\n",
		"services/tool/go.mod":                 "module tool\n",
		"services/tool/main.go":                "package main\n\nimport _ \"" + Module + "/services/gate\"\n",
		"services/gate/testdata/x.go":          "package x\n\nimport _ \"" + Module + "/services/gate\"\n",
		"pkg/policy/scale/scale.go":            "package scale\n\nimport _ \"time\"\n",
		"pkg/policy/scale/scale_test.go":       "package scale\n\nimport _ \"time\"\n",
		"kernels/cpu/kernel.go":                "package cpu\n\nimport _ \"math/bits\"\n",
		"kernels/cpu/kernel_test.go":           "package cpu\n\nimport _ \"pgregory.net/rapid\"\n",
		"pkg/compute/forward/forward_amd64.go": "package forward\n\nimport _ \"" + Module + "/kernels/cpu\"\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range Check(Rules, list) {
		got = append(got, v.From+" "+v.To)
		if !strings.Contains(v.String(), v.Rule.Reason) {
			t.Errorf("%s gives no reason", v)
		}
	}
	if want := []string{"pkg/policy/scale time", "services/gate services/expert"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestRoots wants every folder with Go files to be known as this module's.
func TestRoots(t *testing.T) {
	list, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if !inModule(i.From) {
			t.Errorf("%s has Go files and is not in roots", i.From)
		}
	}
}

// TestWings wants every folder of pkg in the order of wings.
func TestWings(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join(root, "pkg"))
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, f := range folders {
		have = append(have, f.Name())
	}
	for _, w := range wings {
		want = append(want, w.name)
	}
	if slices.Sort(want); !slices.Equal(have, want) {
		t.Errorf("pkg has %v, the order %v", have, want)
	}
}

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, pkg string
		want         bool
	}{
		{"std", "net/http", true},
		{"std", "pkg/transport/bus", false},
		{"std", "github.com/x/y", false},
		{"module", "pkg/transport/bus", true},
		{"module", "net/http", false},
		{"pkg/...", "pkg", true},
		{"pkg/...", "pkgs/x", false},
		{"pkg/transport/bus", "pkg/transport/bus/inner", false},
		{"net/...", "net", true},
		{"pkg/*/bus", "pkg/transport/bus", true},
		{"pkg/*/bus", "pkg/transport/bus/inner", false},
		{"pkg/*/bus/...", "pkg/transport/bus/inner/x", true},
		{"pkg/*/bus/...", "pkg/transport", false},
		{"pkg/*", "pkg/transport/bus", false},
	}
	for _, tt := range tests {
		if got := match(tt.pattern, tt.pkg); got != tt.want {
			t.Errorf("match(%q, %q) is %v", tt.pattern, tt.pkg, got)
		}
	}
}
