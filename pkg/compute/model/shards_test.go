package model

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// shard splits a golden checkpoint into two shards and an index; names of the
// shards in the index pass through rename.
func shard(t *testing.T, rename func(string) string) string {
	t.Helper()
	dir := copyGolden(t, "qwen2_moe-mixed", nil)
	f, err := safetensors.Open(filepath.Join(dir, singleFile))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, f)
	names := []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
	parts := make([][]safetensors.Tensor, 2)
	weightMap := map[string]string{}
	for i, name := range f.Names() {
		x, _ := f.Tensor(name)
		parts[i%2] = append(parts[i%2], x)
		weightMap[name] = rename(names[i%2])
	}
	for i, part := range parts {
		var b bytes.Buffer
		if err := safetensors.Write(&b, part, nil); err != nil {
			t.Fatal(err)
		}
		write(t, dir, names[i], b.Bytes())
	}
	index, _ := json.Marshal(map[string]any{"weight_map": weightMap})
	write(t, dir, indexFile, index)
	if err := os.Remove(filepath.Join(dir, singleFile)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func same(name string) string { return name }

func TestShards(t *testing.T) {
	m, err := Open(shard(t, same))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	whole := openGolden(t, "qwen2_moe-mixed")
	for ref := range m.Spec.Refs() {
		a, _ := m.Tensor(ref)
		b, _ := whole.Tensor(ref)
		if !bytes.Equal(a.Data, b.Data) {
			t.Errorf("%v differs", ref)
		}
	}
	one, err := Open(copyGolden(t, "qwen2_moe-mixed", nil)) // with the same config.json to the byte
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, one)
	if m.Hash != one.Hash {
		t.Errorf("sharded the model is %s, else %s", m.Hash, one.Hash)
	}
}

func TestShardRefusals(t *testing.T) {
	tests := []struct {
		name   string
		rename func(string) string
		spoil  func(t *testing.T, dir string)
		want   string
	}{
		{"traversal", func(s string) string { return "../" + s }, nil, `"../model-`},
		{"absolute", func(s string) string { return "/tmp/" + s }, nil, "same folder"},
		{"backslash", func(s string) string { return `..\` + s }, nil, "same folder"},
		{"other file", func(string) string { return "config.json" }, nil, `"config.json"`},
		{"missing shard", same, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")); err != nil {
				t.Fatal(err)
			}
		}, `shard "model-00002-of-00002.safetensors"`},
		{"truncated shard", same, func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "model-00002-of-00002.safetensors"), 5000); err != nil {
				t.Fatal(err)
			}
		}, `shard "model-00002-of-00002.safetensors"`},
		{"wrong shard", func(string) string { return "model-00001-of-00002.safetensors" }, nil, "but it does not"},
		{"bad index", same, func(t *testing.T, dir string) { write(t, dir, indexFile, []byte("[")) }, "reading JSON"},
		{"empty index", same, func(t *testing.T, dir string) { write(t, dir, indexFile, []byte("{}")) }, "weight_map"},
		{"no weights", same, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, indexFile)); err != nil {
				t.Fatal(err)
			}
		}, "neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := shard(t, tt.rename)
			if tt.spoil != nil {
				tt.spoil(t, dir)
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestDTypeRefused(t *testing.T) {
	dir := copyGolden(t, "mixtral", nil)
	f, err := safetensors.Open(filepath.Join(dir, singleFile))
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, f)
	var all []safetensors.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		if name == "model.norm.weight" {
			x.DType = "I16"
		}
		all = append(all, x)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, singleFile)); err != nil {
		t.Fatal(err)
	}
	write(t, dir, singleFile, b.Bytes())
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `"model.norm.weight" is I16`) {
		t.Error(err)
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"weight_map":{"a":"x.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		weightMap, err := parseIndex(data)
		if err != nil {
			return
		}
		for _, shard := range weightMap {
			if filepath.Base(shard) != shard {
				t.Errorf("shard %q leaves the folder", shard)
			}
		}
	})
}
