package direct

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// multimodal is llama4 as the text part of a model that sees images.
func multimodal(t *testing.T) string {
	t.Helper()
	dir, from := t.TempDir(), goldens.Dir("llama4")
	raw, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "config.json", mustJSON(t, map[string]any{
		"architectures": []string{"Llama4ForConditionalGeneration"}, "model_type": "llama4", "image_token_index": 200092,
		"text_config": json.RawMessage(raw), "vision_config": map[string]any{"hidden_size": 64},
	}))
	f, err := safetensors.Open(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all := []safetensors.Tensor{{Name: "vision_model.class_embedding", DType: safetensors.BF16, Shape: []int{2}, Data: make([]byte, 4)}}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		x.Name = "language_model." + name
		all = append(all, x)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "model.safetensors", b.Bytes())
	for _, name := range []string{"golden.json", "golden.safetensors" + safetensors.PackedSuffix} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, name, raw)
	}
	return dir
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The text part of a multimodal model is the text model; what it sees with is left out.
func TestMultimodal(t *testing.T) {
	dir := multimodal(t)
	r, m := load(t, dir, tensor.F32)
	if len(m.Unused)+len(m.Unknown) > 0 {
		t.Errorf("unused %v, unknown %v", m.Unused, m.Unknown)
	}
	checkLogits(t, r, dir, "logits", m.Spec.Vocab)
}
