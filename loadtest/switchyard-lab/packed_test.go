package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// Quantised checkpoints pass through the pipeline. Those outside this repository
// have the outputs of a model whose rotary frequencies were rounded to bf16.
func TestVerifyPacked(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("loadtest/verify has tests of the same goroutines")
	}
	for dir, cast := range map[string]string{
		goldens.Dir("gpt_oss-mxfp4"):           "false",
		"../../../shared/golden/gpt_oss-mxfp4": "true",
	} {
		t.Run("rope_cast "+cast, func(t *testing.T) {
			if _, err := os.Stat(dir); err != nil {
				t.Skip("this checkpoint is kept outside the repository:", err)
			}
			got := invoke("", "verify", "--json", dir)
			if got.Code != 0 || !strings.Contains(got.Out, `"rope_cast":`+cast) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Weights that no host can load end a command at once, and it names them.
func TestVerifyUnloadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir("gpt_oss-mxfp4"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const tensor = "model.layers.0.mlp.experts.down_proj_scales"
	var header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	begin := 8 + int(binary.LittleEndian.Uint64(data)) //nolint:gosec // it is the length of a header
	if err := json.Unmarshal(data[8:begin], &header); err != nil || header[tensor].Offsets[1] == 0 {
		t.Fatalf("%v, %v", header, err)
	}
	for i := header[tensor].Offsets[0]; i < header[tensor].Offsets[1]; i++ {
		data[begin+i] = 0xff // not a number
	}
	if err := os.Remove(path); err != nil { // a link maybe
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := invoke("", "verify", dir); got.Code != cli.ExitUsage || !strings.Contains(got.Err, "the weights cannot be loaded: layer 0") || !strings.Contains(got.Err, tensor) {
		t.Errorf("%+v", got)
	}
}
