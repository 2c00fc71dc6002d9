package upcycle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

type output struct {
	safetensors.Tensor // without Data
	from               []byte
	noise              float64 // standard deviation; 0 copies
}

// layer is a feed-forward network of the dense model.
type layer struct {
	before  string // what stands before the layer's number
	number  int
	tensors []safetensors.Tensor // with their new names
}

// plan lists the new checkpoint's tensors: first those that stay, then layer by
// layer the gate and each expert's, so that an expert lies in one place.
func plan(d *dense, tensors []safetensors.Tensor, tied bool, s Settings) ([]output, error) {
	var outputs []output
	var layers []layer
	seen := map[string]bool{}
	for _, t := range tensors {
		old := t.Name
		if t.Name = d.rename(t.Name, tied); t.Name == "" {
			continue
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %q is there twice, under its old and its new name (%q)", old, t.Name)
		}
		seen[t.Name] = true
		if parts := d.mlp.FindStringSubmatch(t.Name); parts != nil {
			number, err := strconv.Atoi(parts[2])
			if err != nil {
				return nil, fmt.Errorf("tensor %q: %w", old, err)
			}
			layers = addTo(layers, parts[1], number, t)
			continue
		}
		outputs = append(outputs, stays(t))
	}
	if len(layers) == 0 {
		return nil, fmt.Errorf("no tensor is a %s's feed-forward network", d.modelType)
	}
	return planLayers(outputs, d, layers, s)
}

func stays(t safetensors.Tensor) output {
	from := t.Data
	t.Data = nil
	return output{Tensor: t, from: from}
}

func addTo(layers []layer, before string, number int, t safetensors.Tensor) []layer {
	i := slices.IndexFunc(layers, func(l layer) bool { return l.before == before && l.number == number })
	if i < 0 {
		i = len(layers)
		layers = append(layers, layer{before: before, number: number})
	}
	layers[i].tensors = append(layers[i].tensors, t)
	return layers
}

func planLayers(outputs []output, d *dense, layers []layer, s Settings) ([]output, error) {
	slices.SortFunc(layers, func(a, b layer) int {
		return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(a.number, b.number))
	})
	for _, l := range layers {
		gate, err := l.gate(d, s)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, gate)
		experts, err := l.experts(d, s)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, experts...)
	}
	return outputs, nil
}

// gate is (E, D) of the type of the network's weights. A deviation of 1/√D
// makes logits as large as the elements of a row.
func (l layer) gate(d *dense, s Settings) (output, error) {
	i := slices.IndexFunc(l.tensors, func(t safetensors.Tensor) bool { return strings.HasSuffix(t.Name, d.firstIn) })
	if i < 0 || len(l.tensors[i].Shape) != 2 || l.tensors[i].Len() == 0 {
		return output{}, fmt.Errorf("layer %s%d has no matrix %s", l.before, l.number, d.firstIn)
	}
	first := l.tensors[i]
	width := first.Shape[d.inputAxis]
	return output{
		Tensor: safetensors.Tensor{Name: d.mlp.ReplaceAllString(first.Name, d.gate), DType: first.DType, Shape: []int{s.Experts, width}},
		noise:  1 / math.Sqrt(float64(width)),
	}, nil
}

func (l layer) experts(d *dense, s Settings) (outputs []output, err error) {
	spread := make([]float64, len(l.tensors))
	for i, t := range l.tensors {
		if spread[i], err = deviation(t); err != nil {
			return nil, err
		}
	}
	for e := range s.Experts {
		for i, t := range l.tensors {
			o := stays(t)
			o.Name = strings.Replace(d.mlp.ReplaceAllString(t.Name, d.expert), "{e}", strconv.Itoa(e), 1)
			o.noise = s.Noise * spread[i]
			outputs = append(outputs, o)
		}
	}
	return outputs, nil
}
