package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

// quantisedCopy is one of a golden checkpoint, with its outputs beside it.
func quantisedCopy(t *testing.T, name, precision string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name+"-"+precision)
	got := invoke("", "quantise", "--precision", precision, "--out", dir, goldens.Dir(name), "--json")
	var sum struct {
		Matrices, Files int
	}
	if err := json.Unmarshal([]byte(got.Out), &sum); err != nil || got.Code != 0 || sum.Matrices == 0 || sum.Files != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	outputs, err := filepath.Glob(filepath.Join(goldens.Dir(name), "golden.safetensors*")) // golden.json is copied as any other file
	if err != nil || len(outputs) != 1 {
		t.Fatal(outputs, err)
	}
	data, err := os.ReadFile(outputs[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(outputs[0])), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// badScales is a copy with a scale that is no number, and without outputs beside it.
func badScales(t *testing.T) string {
	t.Helper()
	dir := quantisedCopy(t, "mixtral", "q8")
	path := filepath.Join(dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	at, ok := f.Tensor("model.layers.0.block_sparse_moe.experts.0.w1.weight_scale")
	to, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = to.WriteAt([]byte{0xc0, 0x7f}, at.Offset)
	}
	outputs, _ := filepath.Glob(filepath.Join(dir, "golden.safetensors*"))
	if err := errors.Join(err, to.Close(), f.Close(), os.Remove(outputs[0])); err != nil || !ok {
		t.Fatal(err)
	}
	return dir
}

// notCopied is in codes and does not say that it is a copy, as those that others publish.
func notCopied(t *testing.T) string {
	t.Helper()
	dir := quantisedCopy(t, "mixtral", "q8")
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil || config["_switchyard_copy"] != true {
		t.Fatal(err, config)
	}
	delete(config, "_switchyard_copy")
	if data, err = json.Marshal(config); err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A copy that is quantised ahead passes through the pipeline, is measured, looked at and refused as others are.
func TestQuantisedCopy(t *testing.T) {
	t.Parallel()
	if testkit.Race {
		t.Skip("the packages below have tests of the same goroutines")
	}
	q8, nan, published := quantisedCopy(t, "mixtral", "q8"), badScales(t), notCopied(t)
	server, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // on stdout, or where it fails on either
	}{
		{"the pipeline", []string{"verify", "--wire", "bf16", "--json", q8}, 0, `"messages":`},
		{"its speed", []string{"bench", "--model", q8, "--batch", "1,8", "--prompt-tokens", "4", "--rounds", "1", "--seconds", "0.1", "--json"}, 0, `"model":"mixtral-q8"`},
		{"rows in 8 bits", []string{"bench", "--model", q8, "--precision", "w8a8", "--batch", "1", "--prompt-tokens", "4", "--rounds", "1", "--seconds", "0.1", "--json"}, 0, `"model":"mixtral-q8"`},
		{"what it takes", []string{"inspect", q8}, 0, "experts    q8"},
		{"an expert's load", []string{"bench", "--cold-start", "--model", q8, "--rounds", "1", "--json"}, 0, `"from":"object store"`},
		{"the object store", []string{"weights", "push", q8, "--name", "q8", "--nats", server.URL()}, 0, "serve it with --model nats://q8"},
		{"another model", []string{"weights", "push", goldens.Dir("mixtral"), "--name", "q8", "--nats", server.URL()}, 1, "another model of that name"},
		{"other bits", []string{"up", "--model", q8, "--precision", "q4"}, 2, "switchyard: --precision is q4: model mixtral-q8 is stored in q8: leave --precision out to compute with these codes, or give w8a8, which rounds rows to 8 bits, too; no other is for it"},
		{"its own bits", []string{"up", "--model", q8, "--precision", "q8"}, 2, "leave --precision out to compute with these codes"},
		{"other numbers' outputs", []string{"verify", q8}, 0, "NOT JUDGED  " + q8},
		{"that for programs", []string{"verify", "--json", q8}, 0, `"pass":false,"judged":false`},
		{"a published one", []string{"verify", published}, 1, "FAIL  " + published},
		{"once more", []string{"quantise", q8}, 2, "model mixtral-q8 is quantised already, to codes of 8 bits: quantise the folder that it was made of"},
		{"scales of no use to loads", []string{"bench", "--cold-start", "--model", nan, "--rounds", "1"}, 2, `tensor "model.layers.0.block_sparse_moe.experts.0.w1.weight_scale": output 0: input 0: a scale is NaN`},
		{"scales of no use", []string{"bench", "--model", nan, "--batch", "1", "--rounds", "1", "--seconds", "0.1"}, 2, `tensor "model.layers.0.block_sparse_moe.experts.0.w1.weight_scale": output 0: input 0: a scale is NaN`},
		{"no outputs", []string{"verify", nan}, 2, "a copy by quantise has no golden outputs: verify the model that it is of"},
		{"into another", []string{"quantise", q8, "--out", q8 + "-2"}, 2, "is quantised already"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke("", tt.args...)
			text := got.Out + got.Err
			if tt.code == 0 {
				text = got.Out
			}
			if got.Code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}
