package upcycle

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/checkpoint"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Experts that are exact copies compute what the dense model does, whichever of
// them a gate chooses; testdata/make_dense.py says where the dense logits are from.
func TestCopiesAreDense(t *testing.T) {
	for _, name := range []string{"gpt2", "bert", "bert2bert"} {
		for _, topK := range []int{1, 2} {
			out := filepath.Join(t.TempDir(), "moe")
			s := Settings{Experts: 4, TopK: topK, Seed: 3, ShardBytes: 1 << 14}
			sum, err := Run(t.Context(), filepath.Join("testdata", name), out, s)
			if err != nil {
				t.Fatal(err)
			}
			if sum.Files < 2 || sum.TopK != topK {
				t.Errorf("%s: %+v", name, sum)
			}
			want := golden(t, name, "logits")
			got := logits(t, out, promptOf(t, name))
			for i, w := range want {
				if d := math.Abs(float64(got[i]) - w); !(d < 2e-5) {
					t.Fatalf("%s, top %d: logit %d is %v, the dense model's %v", name, topK, i, got[i], w)
				}
			}
		}
	}
}

// promptOf is what the dense model's logits are of.
func promptOf(t *testing.T, name string) direct.Prompt {
	p := direct.Prompt{IDs: ids(golden(t, name, "input_ids"))}
	switch name {
	case "bert":
		p.Source, p.Types = len(p.IDs), ids(golden(t, name, "token_type_ids"))
	case "bert2bert":
		p.Source = len(p.IDs)
		p.IDs = append(p.IDs, ids(golden(t, name, "decoder_input_ids"))...)
	}
	return p
}

func ids(x []float64) (out []uint32) {
	for _, v := range x {
		out = append(out, uint32(v))
	}
	return out
}

// golden is a tensor of what a dense model computes.
func golden(t *testing.T, name, tensor string) []float64 {
	t.Helper()
	f, err := safetensors.Open(filepath.Join("testdata", name, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it is only read
	x, ok := f.Tensor(tensor)
	if !ok {
		t.Fatalf("%s has no %s", name, tensor)
	}
	var all []float64
	if floats, err := x.Floats(); err == nil {
		for _, v := range floats {
			all = append(all, float64(v))
		}
		return all
	}
	ints, err := x.Ints()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range ints {
		all = append(all, float64(v))
	}
	return all
}

func logits(t *testing.T, dir string, prompt direct.Prompt) []float32 {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	t.Cleanup(func() { p.Close(); _ = m.Close() })
	r, err := direct.New(m, p, direct.Settings{Wire: tensor.F32, MaxPositions: m.Spec.MaxPositions, KVBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.AddPrompt(prompt, 0, sampling.Params{Logprobs: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := r.Logits(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A folder that is there stays as it is, and what fails leaves nothing behind.
func TestNothingHalfMade(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.MkdirAll(filepath.Join(there, "something"), 0o755); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, dense, out string
		ctx              context.Context
		s                Settings
		want             error
	}{
		{"is there", "testdata/gpt2", there, t.Context(), usual, ErrInput},
		{"no model", dir, filepath.Join(dir, "a"), t.Context(), usual, ErrInput},
		{"no experts", "testdata/gpt2", filepath.Join(dir, "b"), t.Context(), Settings{}, ErrInput},
		{"cancelled", "testdata/gpt2", filepath.Join(dir, "c"), cancelled, usual, context.Canceled},
	} {
		if _, err := Run(tt.ctx, tt.dense, tt.out, tt.s); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// The same seed writes the same files, and the tokenizer's go along.
func TestAgain(t *testing.T) {
	dense, dir := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dense, os.DirFS("testdata/gpt2")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dense, "vocab.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var hashes []string
	for _, name := range []string{"a", "b"} {
		out, done := filepath.Join(dir, name), int64(0)
		s := usual
		s.Progress = func(n, total int64) { done = total - n }
		if _, err := Run(t.Context(), dense, out, s); err != nil {
			t.Fatal(err)
		}
		m, err := model.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, m.Hash)
		if _, ok := m.File("vocab.json"); !ok || done != 0 || m.Close() != nil {
			t.Errorf("vocab.json %v, %d bytes not told of", ok, done)
		}
	}
	if hashes[0] != hashes[1] {
		t.Error("the same seed gives another model")
	}
}

// All files that services may need go along, as they do into an object store.
func TestSideFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dense")
	if err := os.CopyFS(dir, os.DirFS("testdata/gpt2")); err != nil {
		t.Fatal(err)
	}
	const further = "chat_templates/tool_use.jinja"
	if err := os.Mkdir(filepath.Join(dir, "chat_templates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chat_template.json", "qwen.tiktoken", further} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "moe")
	if _, err := Run(t.Context(), dir, out, usual); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chat_template.json", "qwen.tiktoken", further} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != "of "+name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// What is wrong with the folder is said of it.
func TestWrongFolders(t *testing.T) {
	noConfig := t.TempDir()
	if err := os.CopyFS(noConfig, os.DirFS("testdata/gpt2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(noConfig, checkpoint.Config)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ dir, want string }{
		{filepath.Join(noConfig, "nowhere"), "nowhere is no folder"},
		{"testdata/gpt2/config.json", "config.json is no folder"},
		{t.TempDir(), "neither model.safetensors nor"},
		{noConfig, "it has no readable config.json"},
	} {
		_, err := Run(t.Context(), tt.dir, filepath.Join(t.TempDir(), "out"), usual)
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
