package predictors

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/models"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/policy/predict"
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
	w := Weights{Model: hash, Experts: 4, Hidden: 64, Tuned: map[int]map[int]predict.Tuned{}}
	gate := make([]float32, 4*64)
	gate[64] = 1 // expert 1 takes what has a first element
	adapter := &predict.Network{Width: 1, W1: make([]float32, 64+4), B1: []float32{1}, W2: []float32{0, 0, 0, 8}, B2: make([]float32, 4)}
	adapter.W1[0] = -8 // expert 3 what has none
	w.Set(1, 1, predict.Tuned{Gate: gate, Adapter: adapter})
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
	x, load := make([]float32, 2*64), make([]float64, 4)
	x[0] = 1
	// tiny chooses two: the second choices are experts 0, ties going to the lower id.
	if !p.Predict(0, x, 2, load) || !slices.Equal(load, []float64{2, 1, 0, 1}) || !p.Tuned(0) {
		t.Errorf("loads %v, tuned %v", load, p.Tuned(0))
	}
}

func TestReusedWithoutFile(t *testing.T) {
	p, err := For(tiny(t), "", 1)
	if err != nil || p.Tuned(0) || p.Method() != "reused" {
		t.Errorf("%v, %v", p, err)
	}
}

// The weights in this binary are for the demo model in this binary, and better
// than its gates, as measured when they were made.
func TestDemoWeights(t *testing.T) {
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	for distance := 1; distance <= 5; distance++ {
		p, err := For(m, "", distance)
		if err != nil || p.Method() != predict.MethodMoEless || !p.Tuned(0) {
			t.Errorf("distance %d: %v, %v", distance, p, err)
		}
	}
	w, err := Parse(models.DemoPredictor)
	if err != nil {
		t.Fatal(err)
	}
	reused := map[[2]int]float64{}
	for _, a := range w.Measured {
		if a.Method == predict.MethodReused {
			reused[[2]int{a.Distance, a.Layer}] = a.Accuracy
		}
	}
	for _, a := range w.Measured {
		if before := reused[[2]int{a.Distance, a.Layer}]; a.Method == predict.MethodMoEless && a.Accuracy <= before {
			t.Errorf("layer %d from %d before it: accuracy %.3f, of the gate %.3f", a.Layer, a.Distance, a.Accuracy, before)
		}
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
	part := gate("distance.1.layer.1.adapter.w1", 4, 64)
	nan := gate("distance.1.layer.1.gate", 4, 64)
	nan.Data[0], nan.Data[1] = 0xc0, 0x7f
	tests := []struct {
		name, want string
		data       []byte
	}{
		{"no format", "no file of switchyard", of(nil)},
		{"measured", "measured", of(map[string]string{"format": Format, "measured": "{"})},
		{"adapter alone", "gate is not there", of(meta, part)},
		{"adapter without its first part", "adapter.w1 is not there", of(meta, gate("distance.1.layer.1.gate", 4, 64), gate("distance.1.layer.1.adapter.b2", 1, 4))},
		{"part of an adapter", "adapter.b1 is not there", of(meta, gate("distance.1.layer.1.gate", 4, 64), part)},
		{"other tensor", "must be distance.D", of(meta, gate("x", 4, 64))},
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
