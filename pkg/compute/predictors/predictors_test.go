package predictors

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

func tiny(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// file writes weights that predict layer 1 of tiny for a model with that hash.
func file(t testing.TB, hash string) []byte {
	t.Helper()
	w := Weights{Model: hash, Experts: 4, Hidden: 64, Tuned: map[int]map[int][]float32{}}
	gate := make([]float32, 4*64)
	gate[64] = 1 // expert 1 takes what has a first element
	w.Set(1, 1, gate)
	var b bytes.Buffer
	if err := w.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWeightsFromFile(t *testing.T) {
	m := tiny(t)
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := os.WriteFile(path, file(t, m.Hash), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := For(m, path, 1)
	if err != nil {
		t.Fatal(err)
	}
	x, load := make([]float32, 64), make([]float64, 4)
	x[0] = 1
	if !p.Predict(0, x, 1, load) || load[1] != 1 || !p.Tuned(0) {
		t.Errorf("loads %v, tuned %v", load, p.Tuned(0))
	}
}

func TestReusedWithoutFile(t *testing.T) {
	p, err := For(tiny(t), "", 1)
	if err != nil || p.Tuned(0) || p.Method() != "reused" {
		t.Errorf("%v, %v", p, err)
	}
}

func TestRefusals(t *testing.T) {
	m := tiny(t)
	of := func(metadata map[string]string, tensors ...safetensors.Tensor) []byte {
		var b bytes.Buffer
		if err := safetensors.Write(&b, tensors, metadata); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	meta := map[string]string{"format": Format, "model": m.Hash, "measured": "[]"}
	gate := func(name string, n, k int) safetensors.Tensor {
		return safetensors.Tensor{Name: name, DType: safetensors.BF16, Shape: []int{n, k}, Data: make([]byte, 2*n*k)}
	}
	nan := gate("distance.1.layer.1.gate", 4, 64)
	nan.Data[0], nan.Data[1] = 0xc0, 0x7f
	tests := []struct {
		name, want string
		data       []byte
	}{
		{"no format", "no file of switchyard", of(nil)},
		{"measured", "measured", of(map[string]string{"format": Format, "measured": "{"})},
		{"other tensor", "must be a matrix", of(meta, gate("x", 4, 64))},
		{"two shapes", "that of others", of(meta, gate("distance.1.layer.1.gate", 4, 64), gate("distance.1.layer.2.gate", 4, 63))},
		{"NaN", "NaN", of(meta, nan)},
		{"other model", "trained for the model", file(t, "abc")},
		{"other distance", "not for distance", of(meta, gate("distance.2.layer.1.gate", 4, 64))},
		{"other shape", "weights", of(meta, gate("distance.1.layer.1.gate", 4, 63))},
		{"absent layer", "no gate", of(meta, gate("distance.1.layer.9.gate", 4, 64))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "w.safetensors")
			if err := os.WriteFile(path, tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := For(m, path, 1); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	m := tiny(f)
	g, err := GatesOf(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file(f, m.Hash))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if w, err := Parse(data); err == nil {
			_, _ = w.For(w.Model, g, 1)
		}
	})
}
