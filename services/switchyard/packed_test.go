package main

import (
	"os"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
)

// Quantised checkpoints pass through the pipeline. Those outside this repository
// have the outputs of a model whose rotary frequencies were rounded to bf16.
func TestVerifyPacked(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("pkg/lab/verify has tests of the same goroutines")
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
			if got.code != 0 || !strings.Contains(got.out, `"rope_cast":`+cast) {
				t.Errorf("%+v", got)
			}
		})
	}
}
