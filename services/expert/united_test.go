package expert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// What is no folder of the model's united experts, and hosts that cannot hold any, are refused by name.
func TestUnitedRefused(t *testing.T) {
	d := testdeployment.Open(t)
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, united.Name(2)), []byte("no safetensors"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		c    Config
		says string
	}{
		"none":      {Config{}, ""},
		"missing":   {Config{United: filepath.Join(bad, "x")}, "--united: these united experts cannot be used"},
		"empty":     {Config{United: t.TempDir()}, "make them with switchyard distill"},
		"garbage":   {Config{United: bad}, "--united: these united experts cannot be used"},
		"offloaded": {Config{United: bad, Offload: "lru"}, "give one of the two"},
		"on a GPU":  {Config{United: bad, GPU: &gpus.GPU{}}, "a GPU holds no united experts yet"},
	} {
		err := tc.c.Check(d.Model)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
}
