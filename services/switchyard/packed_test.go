package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Quantised checkpoints pass through the pipeline. Those outside this repository
// have the outputs of a model whose rotary frequencies were rounded to bf16.
func TestVerifyPacked(t *testing.T) {
	for dir, cast := range map[string]string{
		"../../pkg/compute/model/testdata/golden/gpt_oss-mxfp4": "false",
		"../../../shared/golden/gpt_oss-mxfp4":                  "true",
	} {
		if _, err := os.Stat(dir); err != nil {
			continue // not everybody has it
		}
		got := invoke("", "verify", "--json", dir)
		if got.code != 0 || !strings.Contains(got.out, `"rope_cast":`+cast) {
			t.Errorf("%s: %+v", filepath.Base(filepath.Dir(dir)), got)
		}
	}
}
