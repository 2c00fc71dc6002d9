package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/maps"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// Maps are built of a recording, looked at, exported, imported as another tenant's, and
// forgotten.
func TestMaps(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages that record and build maps have tests of their goroutines")
	}
	story, code := texts(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if got := invoke("", "record", "--out", in("r"), "--tokens", "100", "--answer-tokens", "3", "--texts", story, "go="+code); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	got := invoke("", "maps", "build", "--json", "--train", "0.7", "--threads", "1", "--tenant", "acme", "--out", in("m"), in("r"))
	var report maps.Report
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || got.Code != 0 || report.Maps == 0 || report.Decode.Recall <= 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	var one struct {
		Tenants []struct {
			Tenant string
			Maps   int
		}
		Digest string
	}
	got = invoke("", "maps", "inspect", "--json", in("m"))
	if err := json.Unmarshal([]byte(got.Out), &one); err != nil || one.Digest != report.Digest || len(one.Tenants) != 1 || one.Tenants[0].Tenant != "acme" || one.Tenants[0].Maps != report.Maps {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, step := range []struct{ args, want string }{
		{"inspect M", "acme: "},
		{"export --tenant acme --out X M", "maps of tenant acme in"},
		{"import --into N --capacity 5 --tenant other X M", "maps in"},
		{"forget --tenant acme DIR", "2 files were looked through"},
		{"inspect N", "other: 5 maps"},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "M", in("m"), "N", in("n"), "X", in("x")).Replace(step.args))
		if got := invoke("", append([]string{"maps"}, args...)...); got.Code != 0 || !strings.Contains(got.Out, step.want) {
			t.Fatalf("%v: %+v", args, got)
		}
	}
	for _, name := range []string{"m", "n"} {
		if s, err := mapfile.Read(in(name)); err != nil || s.Len("acme") != 0 {
			t.Errorf("%s still has maps: %v", name, err)
		}
	}
}

// Files and settings that cannot be used are named, with what to do.
func TestMapsRefuse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("switchyard-maps-1\nand no more"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range testkit.Some([]struct {
		args string
		code int
		want string
	}{
		{"inspect none", cli.ExitUsage, "no such file"},
		{"inspect BAD", cli.ExitUsage, "damaged"},
		{"export --out x BAD", cli.ExitUsage, "damaged"},
		{"import --into x BAD", cli.ExitUsage, "damaged"},
		{"forget --tenant a BAD", cli.ExitFailed, "remove the file"},
		{"forget --tenant a none", cli.ExitUsage, "no such file"},
		{"forget --tenant a EMPTY", cli.ExitUsage, "no snapshot"},
		{"build none", cli.ExitUsage, "no such file"},
		{"build --replace lru none", cli.ExitUsage, "replace"},
	}) {
		args := strings.Fields(strings.NewReplacer("BAD", bad, "EMPTY", t.TempDir()).Replace(tt.args))
		if got := invoke("", append([]string{"maps"}, args...)...); got.Code != tt.code || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
