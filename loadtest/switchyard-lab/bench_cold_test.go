package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// What cannot be measured of cold starts is a mistake of the command line, and nothing is measured.
func TestColdStartRefuses(t *testing.T) {
	t.Parallel()
	qwen, cut := goldens.Dir("qwen3_moe"), filepath.Join(t.TempDir(), "cut")
	if err := os.CopyFS(cut, os.DirFS(qwen)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cut, "config.json")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no model", nil, "--cold-start reads files: name their folder with --model"},
		{"a model of the store", []string{"--model", "nats://demo"}, "--cold-start reads files"},
		{"no folder", []string{"--model", filepath.Join(t.TempDir(), "none")}, "none"},
		{"half a model", []string{"--model", cut}, "config.json"},
		{"no codes", []string{"--model", qwen, "--precision", "a8"}, "--precision is a8: no matrix of model qwen3_moe is stored as codes"},
		{"rounds without end", []string{"--model", qwen, "--rounds", "9223372036854775807"}, "--rounds is 9223372036854775807; it must be"},
		{"layers", []string{"--model", qwen, "--rows", "4"}, "leave out --rows\n"},
		{"idle flags", []string{"--synthetic", "tiny", "--kv-cache-dtype", "int8", "--batch", "1", "--seconds", "1"}, "leave out --synthetic, --kv-cache-dtype, --batch, --seconds\n"},
		{"a server", []string{"--model", qwen, "--nats", "nats://127.0.0.1:1"}, "leave out --nats\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := invoke("", append([]string{"bench", "--cold-start"}, tc.args...)...)
			if got.Code != cli.ExitUsage || got.Out != "" || !strings.Contains(got.Err, tc.want) {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

// Flags of all commands, and those of a cold start, are taken.
func TestColdStart(t *testing.T) {
	t.Parallel()
	got := invoke("", "bench", "--cold-start", "--model", goldens.Dir("qwen3_moe"), "--rounds", "1", "--threads", "1", "--precision", "w16a16", "--json", "--log-level", "warn")
	if got.Code != cli.ExitDone || !strings.Contains(got.Out, `"precision":"w16a16"`) {
		t.Errorf("got %+v", got)
	}
}
