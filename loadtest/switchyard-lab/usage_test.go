package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
)

// Wrong usage is refused in words that say what to do.
func TestUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		code int
		want string // on stdout for code 0, else on stderr
	}{
		{"texts that are not there", []string{"record", "--out", filepath.Join(t.TempDir(), "r"), "nowhere.txt"}, 2, "reading texts nowhere.txt"},
		{"no texts to train on", []string{"train-predictor", "--out", filepath.Join(t.TempDir(), "w"), "--texts", "nowhere.txt"}, 2, "reading texts nowhere.txt"},
		{"a domain without a name", []string{"record", "--out", filepath.Join(t.TempDir(), "r"), "=usage_test.go"}, 2, "reading texts =usage_test.go"},
		{"no such device to verify on", []string{"verify", "--device", "paced", "."}, 2, "verify compares on cpu, cuda or cuda:N"},
		{"a precision that groups do not divide", []string{"bench", "--model", goldens.Dir("qwen3_moe"), "--precision", "q4"}, 2, "switchyard: --precision is q4: weights in q4: ExpertDown of layer 0, expert 0 of model qwen3_moe: 40 inputs are no multiple of 32, which share a scale: leave it out"},
		{"keys that 32 does not divide", []string{"bench", "--model", goldens.Dir("mixtral"), "--kv-cache-dtype", "int8"}, 2, "switchyard: --kv-cache-dtype is int8: model mixtral: layer 0: its heads have 16 and 16 dimensions, and a multiple of 32 can be kept so: give auto"},
		{"what a precision costs", []string{"quantise", "--precision", "q4"}, 0, "matrices of demo in q4: 10."},
		{"a copy that groups do not divide", []string{"quantise", "--out", filepath.Join(os.TempDir(), "x"), goldens.Dir("qwen3_moe")}, 2, "weights in q8: ExpertDown of layer 0, expert 0 of model qwen3_moe: 40 inputs are no multiple of 32, which share a scale\n"},
		{"errors of what groups do not divide", []string{"quantise", goldens.Dir("qwen3_moe")}, 2, "40 inputs are no multiple of 32, which share a scale\n"},
		{"a copy in no folder", []string{"quantise", "--out", ""}, 2, "--out is empty: name the folder of the copy, or leave it out"},
		{"shards of no copy", []string{"quantise", "--shard-size", "1GiB"}, 2, "--shard-size is of --out"},
		{"a copy over this folder", []string{"quantise", "--out", "."}, 2, "is there already; name another folder, or remove it"},
		{"a copy over something", []string{"quantise", "--out", goldens.Dir("mixtral")}, 2, "is there already; name another folder, or remove it"},
		{"a copy in no size", []string{"quantise", "--out", "x", "--shard-size", "much"}, 2, "--shard-size"},
		{"random weights as processes", []string{"bench", "--processes", "--synthetic", "tiny"}, 2, "--processes measures services that read a model's folder"},
		{"layers as processes", []string{"bench", "--processes", "--rows", "1"}, 2, "--processes measures tokens a second; leave out"},
		{"attention of bench on a GPU without CUDA", []string{"bench", "--synthetic", "tiny", "--attention-device", "cuda:1"}, 2, "switchyard: --attention-device cuda:1: this binary has no CUDA"},
		{"gates of bench on a GPU without CUDA", []string{"bench", "--synthetic", "tiny", "--gate-device", "cuda"}, 2, "switchyard: --gate-device cuda: this binary has no CUDA"},
		{"attention of bench on nothing known", []string{"bench", "--synthetic", "tiny", "--attention-device", "paced"}, 2, "it must be cpu, cuda or cuda:N"},
		{"GPU memory of bench's CPU", []string{"bench", "--synthetic", "tiny", "--attention-gpu-memory", "1GiB"}, 2, "switchyard: --attention-gpu-memory is 1GiB; it is of --attention-device cuda only"},
		{"two models to bench", []string{"bench", "--synthetic", "tiny", "--model", "x"}, 2, "switchyard: --model and --synthetic exclude each other"},
		{"a prompt of nothing", []string{"bench", "--prompt-tokens", "0"}, 2, "switchyard: --prompt-tokens is 0; it must be 1 to 1048576"},
		{"a prompt that no model takes", []string{"bench", "--synthetic", "tiny", "--prompt-tokens", "4090"}, 2, "switchyard: --prompt-tokens is 4090; model tiny has 4096 positions, of which 8 are for answers: it must be 1 to 4088"},
		{"a prompt of no use to rows", []string{"bench", "--rows", "4", "--seconds", "0.01", "--prompt-tokens", "17"}, 2, "switchyard: --prompt-tokens is 17; leave it out with --rescale, and with --rows"},
		{"a prompt of no use to changes of plans", []string{"bench", "--rescale", "--batch", "1", "--rounds", "1", "--seconds", "0.01", "--prompt-tokens", "17"}, 2, "switchyard: --prompt-tokens is 17; leave it out with --rescale, and with --rows"},
		{"layers with a breakdown", []string{"bench", "--rows", "4", "--seconds", "0.01", "--breakdown"}, 2, "switchyard: --rows measures layers alone; leave out --breakdown"},
		{"changes of plans with stages", []string{"bench", "--rescale", "--batch", "1", "--rounds", "1", "--seconds", "0.01", "--stages"}, 2, "switchyard: --rescale measures changes of plans alone; leave out --rows"},
		{"a turn without end", []string{"bench", "--seconds", "Inf"}, 2, "switchyard: --seconds is +Inf; it must be above 0, and at most 86400"},
		{"a turn of no time", []string{"bench", "--seconds", "NaN"}, 2, "switchyard: --seconds is NaN; it must be above 0, and at most 86400"},
		{"too many threads", []string{"bench", "--threads=4097"}, 2, "--threads is 4097; it must be 0 to 4096"},
		{"threads below none", []string{"bench", "--threads=-1"}, 2, "--threads is -1; it must be 0 to 4096"},
		{"too many rows", []string{"bench", "--max-rows=65537"}, 2, "--max-rows is 65537; it must be 1 to 65536"},
		{"too many microbatches", []string{"bench", "--microbatches=257"}, 2, "--microbatches is 257; it must be 1 to 256"},
		{"too many least rows", []string{"bench", "--min-rows=65537"}, 2, "--min-rows is 65537; it must be 0 to 65536"},
		{"no port of Kafka", []string{"bench", "--kafka=localhost:abc"}, 2, "--kafka has "},
	}
	for _, tt := range testkit.Some(tests) {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke("", tt.args...)
			text := got.Err
			if tt.code == 0 {
				text = got.Out
			}
			if got.Code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("got %+v, want code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}
