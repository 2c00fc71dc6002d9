package predictors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// Format is what the metadata of a weights file say it is.
const Format = "switchyard-predictor-1"

// Weights are fine-tuned gates for a model, by distance and target layer.
type Weights struct {
	Model    string // the model's hash
	Hidden   int    // D
	Experts  int    // E
	Tuned    map[int]map[int]predict.Tuned
	Measured []Accuracy
	// Note says how they were made, for people and for going on with it.
	Note string
}

// Accuracy is what was measured on held-out texts; see pkg/policy/predict.
type Accuracy struct {
	Method   string  `json:"method"`
	Distance int     `json:"distance"`
	Layer    int     `json:"layer"` // the target
	Accuracy float64 `json:"accuracy"`
	Load     float64 `json:"load_accuracy"`
	// Pearson is the correlation of predicted and actual loads of batches.
	Pearson float64 `json:"pearson"`
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
	w := &Weights{Model: meta["model"], Note: meta["note"], Tuned: map[int]map[int]predict.Tuned{}}
	if err := json.Unmarshal([]byte(meta["measured"]), &w.Measured); err != nil {
		return nil, fmt.Errorf("reading the metadata's measured: %w", err)
	}
	for _, name := range f.Names() {
		if err := w.take(f, name); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return w, nil
}

// tensorName is that of a gate, and what follows its dot that of an adapter's part.
var tensorName = regexp.MustCompile(`^distance\.([0-9]{1,4})\.layer\.([0-9]{1,5})\.(gate|adapter\.(?:w1|b1|w2|b2))$`)

var parts = []string{"adapter.w1", "adapter.b1", "adapter.w2", "adapter.b2"}

// take reads a gate with its adapter; an adapter's part must have its gate.
func (w *Weights) take(f *safetensors.File, name string) error {
	match := tensorName.FindStringSubmatch(name)
	if match == nil {
		return errors.New("it must be distance.D.layer.L.gate, or a part of its adapter")
	}
	prefix, part := strings.TrimSuffix(name, match[3]), match[3]
	if part != "gate" {
		if _, ok := f.Tensor(prefix + "gate"); !ok {
			return errors.New("it is of an adapter whose gate is not there")
		}
		return nil
	}
	tuned, err := w.tuned(f, prefix)
	if err != nil {
		return err
	}
	distance, _ := strconv.Atoi(match[1]) // the pattern lets only numbers through
	layer, _ := strconv.Atoi(match[2])
	w.Set(distance, layer, tuned)
	return nil
}

func (w *Weights) tuned(f *safetensors.File, prefix string) (t predict.Tuned, err error) {
	gate, _ := f.Tensor(prefix + "gate")
	if len(gate.Shape) != 2 || gate.Len() == 0 || len(w.Tuned) > 0 && !slices.Equal(gate.Shape, []int{w.Experts, w.Hidden}) {
		return t, fmt.Errorf("its shape is %v; it must be a matrix, and that of others is [%d %d]", gate.Shape, w.Experts, w.Hidden)
	}
	w.Experts, w.Hidden = gate.Shape[0], gate.Shape[1]
	if t.Gate, err = finite(gate); err != nil {
		return t, err
	}
	if !slices.ContainsFunc(parts, func(part string) bool { _, ok := f.Tensor(prefix + part); return ok }) {
		return t, nil
	}
	t.Adapter, err = adapter(f, prefix)
	return t, err
}

// adapter reads its parts; whether they fit one another is checked where they are used.
func adapter(f *safetensors.File, prefix string) (*predict.Network, error) {
	n := &predict.Network{}
	for i, to := range []*[]float32{&n.W1, &n.B1, &n.W2, &n.B2} {
		tensor, ok := f.Tensor(prefix + parts[i])
		if !ok {
			return nil, fmt.Errorf("its %s is not there", parts[i])
		}
		var err error
		if *to, err = finite(tensor); err != nil {
			return nil, fmt.Errorf("%s: %w", parts[i], err)
		}
	}
	n.Width = len(n.B1)
	return n, nil
}

func finite(t safetensors.Tensor) ([]float32, error) {
	floats, err := t.Floats()
	if err != nil {
		return nil, err
	}
	for _, v := range floats {
		if v-v != 0 {
			return nil, fmt.Errorf("it has a weight that is %v", v)
		}
	}
	return floats, nil
}

// Set takes in the tuned gate of a distance and target layer.
func (w *Weights) Set(distance, layer int, t predict.Tuned) {
	if w.Tuned[distance] == nil {
		w.Tuned[distance] = map[int]predict.Tuned{}
	}
	w.Tuned[distance][layer] = t
}

// Write writes a weights file, all as bf16.
func (w *Weights) Write(to io.Writer) error {
	measured, err := json.Marshal(w.Measured)
	if err != nil {
		return fmt.Errorf("encoding what was measured: %w", err)
	}
	return safetensors.Write(to, w.tensors(), map[string]string{"format": Format, "model": w.Model, "note": w.Note, "measured": string(measured)})
}

func (w *Weights) tensors() (list []safetensors.Tensor) {
	for _, distance := range slices.Sorted(maps.Keys(w.Tuned)) {
		for _, layer := range slices.Sorted(maps.Keys(w.Tuned[distance])) {
			prefix, t := fmt.Sprintf("distance.%d.layer.%d.", distance, layer), w.Tuned[distance][layer]
			list = append(list, half(prefix+"gate", t.Gate, w.Experts, w.Hidden))
			if n := t.Adapter; n != nil {
				list = append(list, half(prefix+parts[0], n.W1, n.Width, w.Hidden+w.Experts), half(prefix+parts[1], n.B1, n.Width),
					half(prefix+parts[2], n.W2, w.Experts, n.Width), half(prefix+parts[3], n.B2, w.Experts))
			}
		}
	}
	return list
}

func half(name string, floats []float32, shape ...int) safetensors.Tensor {
	data := make([]byte, 2*len(floats))
	cpu.ToBF16(data, floats)
	return safetensors.Tensor{Name: name, DType: safetensors.BF16, Shape: shape, Data: data}
}

// Round rounds a tuned gate to what a file keeps.
func Round(t predict.Tuned) {
	cpu.RoundBF16(t.Gate)
	if n := t.Adapter; n != nil {
		for _, w := range [][]float32{n.W1, n.B1, n.W2, n.B2} {
			cpu.RoundBF16(w)
		}
	}
}
