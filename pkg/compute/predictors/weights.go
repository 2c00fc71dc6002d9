package predictors

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Format is what the metadata of a weights file say it is.
const Format = "switchyard-predictor-1"

// Weights are fine-tuned gates for a model, by distance and target layer.
type Weights struct {
	Model    string // the model's hash
	Hidden   int    // D
	Experts  int    // E
	Tuned    map[int]map[int][]float32
	Measured []Accuracy
}

// Accuracy is what was measured on held-out texts; see pkg/policy/predict.
type Accuracy struct {
	Method   string  `json:"method"`
	Distance int     `json:"distance"`
	Layer    int     `json:"layer"` // the target
	Accuracy float64 `json:"accuracy"`
	Load     float64 `json:"load_accuracy"`
	Pearson  float64 `json:"pearson"`
}

// Open reads a weights file. The error names it.
func Open(path string) (*Weights, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	w, err := weightsOf(f)
	if errClose := f.Close(); err == nil {
		err = errClose
	}
	if err != nil {
		return nil, fmt.Errorf("reading predictor weights %s: %w", path, err)
	}
	return w, nil
}

// Parse reads a weights file from memory.
func Parse(data []byte) (*Weights, error) {
	f, err := safetensors.Parse(data)
	if err != nil {
		return nil, err
	}
	return weightsOf(f)
}

func weightsOf(f *safetensors.File) (*Weights, error) {
	meta := f.Metadata()
	if meta["format"] != Format {
		return nil, fmt.Errorf("the metadata's format is %q, not %q: it is no file of switchyard train-predictor", meta["format"], Format)
	}
	w := &Weights{Model: meta["model"], Tuned: map[int]map[int][]float32{}}
	if err := json.Unmarshal([]byte(meta["measured"]), &w.Measured); err != nil {
		return nil, fmt.Errorf("reading the metadata's measured: %w", err)
	}
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		if err := w.take(t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return w, nil
}

var tensorName = regexp.MustCompile(`^distance\.([0-9]{1,4})\.layer\.([0-9]{1,5})\.gate$`)

// take adds a tensor; all have one shape.
func (w *Weights) take(t safetensors.Tensor) error {
	parts := tensorName.FindStringSubmatch(t.Name)
	if parts == nil || len(t.Shape) != 2 || t.Len() == 0 {
		return fmt.Errorf("it must be a matrix distance.D.layer.L.gate; the shape is %v", t.Shape)
	}
	if len(w.Tuned) > 0 && (t.Shape[0] != w.Experts || t.Shape[1] != w.Hidden) {
		return fmt.Errorf("its shape is %v, that of others [%d %d]", t.Shape, w.Experts, w.Hidden)
	}
	floats, err := t.Floats()
	if err != nil {
		return err
	}
	for _, v := range floats {
		if v-v != 0 {
			return fmt.Errorf("it has a weight that is %v", v)
		}
	}
	w.Experts, w.Hidden = t.Shape[0], t.Shape[1]
	distance, _ := strconv.Atoi(parts[1]) // the pattern lets only numbers through
	layer, _ := strconv.Atoi(parts[2])
	w.Set(distance, layer, floats)
	return nil
}

// Set takes in the tuned gate of a distance and target layer.
func (w *Weights) Set(distance, layer int, gate []float32) {
	if w.Tuned[distance] == nil {
		w.Tuned[distance] = map[int][]float32{}
	}
	w.Tuned[distance][layer] = gate
}

// Write writes a weights file, the gates as bf16.
func (w *Weights) Write(to io.Writer) error {
	measured, err := json.Marshal(w.Measured)
	if err != nil {
		return fmt.Errorf("encoding what was measured: %w", err)
	}
	return safetensors.Write(to, w.tensors(), map[string]string{"format": Format, "model": w.Model, "measured": string(measured)})
}

func (w *Weights) tensors() (list []safetensors.Tensor) {
	for _, distance := range slices.Sorted(maps.Keys(w.Tuned)) {
		for _, layer := range slices.Sorted(maps.Keys(w.Tuned[distance])) {
			gate := w.Tuned[distance][layer]
			data := make([]byte, 2*len(gate))
			cpu.ToBF16(data, gate)
			list = append(list, safetensors.Tensor{
				Name: fmt.Sprintf("distance.%d.layer.%d.gate", distance, layer), DType: safetensors.BF16, Shape: []int{w.Experts, w.Hidden}, Data: data,
			})
		}
	}
	return list
}
