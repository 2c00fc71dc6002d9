package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// A checkpoint that was quantised ahead has matrices (N, K) in groups of cpu.QGroup inputs, as
// compressed-tensors stores them ("pack-quantized"): in place of X are X_packed (N, K/4 or K/8), int32s
// of four or eight codes with 128 or 8 added, the first one's lowest; X_scale (N, K/32) in bf16; and
// X_shape, which repeats (N, K). Matrices that were stored as (inputs, outputs) are (outputs, inputs) there.
// Those of all experts in one tensor have a dimension before the others, and no X_shape: such stacks are ours alone.
// Published ones may have a scale for a multiple of cpu.QGroup inputs, or for all of an output: it is read as that of
// each cpu.QGroup among them.

// packFormat and packMethod are what quantization_config calls it.
const (
	packMethod = "compressed-tensors"
	packFormat = "pack-quantized"
)

// Grouped reports whether matrices are stored in groups.
func (d Dequant) Grouped() bool { return d == Grouped8 || d == Grouped4 }

// GroupedBits returns those of a code of matrices in groups.
func (d Dequant) GroupedBits() int64 { return int64(groupedBits[d]) }

var groupedBits = map[Dequant]int{Grouped8: 8, Grouped4: 4}

// groupedFormats are what they are packed as.
var groupedFormats = map[Dequant]cpu.Format{Grouped8: cpu.Q8, Grouped4: cpu.Q4}

func (t TensorRef) groupedParts() []string {
	parts := []string{t.Name + "_packed", t.Name + "_scale", t.Name + "_shape"}
	if t.Stacked {
		return parts[:2]
	}
	return parts
}

// groupedShapes returns those of codes, scales and the shape.
func (t TensorRef) groupedShapes(n, k int) [][]int {
	all := [][]int{{n, k * groupedBits[t.Dequant] / 32}, {n, k / t.groupOf(k)}, {2}}
	return all[:len(t.groupedParts())]
}

// groupOf returns how many of k inputs share a scale in the files.
func (t TensorRef) groupOf(k int) int {
	if t.Group == 0 {
		return cpu.QGroup
	}
	return min(t.Group, k)
}

// Groups returns the codes and scales of a matrix that is stored in groups: views where they lie together.
func (m *Model) Groups(ref Ref) (cpu.Groups, error) {
	r, err := m.load(ref)
	if err == nil && !r.at.Dequant.Grouped() {
		err = fmt.Errorf("tensor %q is not in groups", r.at.Name)
	}
	if err != nil {
		return cpu.Groups{}, err
	}
	g, err := r.groupsOf()
	if err != nil {
		return g, fmt.Errorf("model %s: %w (%v)", m.Name, err, ref)
	}
	return g, nil
}

// groupsOf refuses a shape that is not the matrix's.
func (r *resolved) groupsOf() (cpu.Groups, error) {
	if r.sizes.Data != nil {
		want := []int64{int64(r.shape[0] * r.parts()), int64(r.shape[1])}
		if shape, err := r.sizes.Ints(); err != nil || !slices.Equal(shape, want) {
			return cpu.Groups{}, fmt.Errorf("tensor %q is %v, but config.json makes it %v", r.sizes.Name, shape, want)
		}
	}
	scales := repeated(r.gather(r.scales.Data), r.at.groupOf(r.shape[1])/cpu.QGroup)
	return cpu.Groups{Codes: r.gather(r.stored.Data), Scales: scales}, nil
}

func repeated(scales []byte, times int) []byte {
	if times <= 1 {
		return scales
	}
	all := make([]byte, 0, len(scales)*times)
	for ; len(scales) >= 2; scales = scales[2:] {
		for range times {
			all = append(all, scales[0], scales[1])
		}
	}
	return all
}

// ScalesName returns the tensor with the scales of a matrix that is stored in groups.
func (m *Model) ScalesName(ref Ref) string { return m.stored(ref).groupedParts()[1] }

// strays refuses codes of a matrix in groups that count from a zero of their own, or whose inputs are in an order of their
// own, by the tensor that says so. One that changes nothing is passed over, where in has its Data: what is pushed to an object
// store is without them, so that there is nothing to be fetched.
func (r *resolved) strays(in lookUp) error {
	if !r.at.Dequant.Grouped() {
		return nil
	}
	return safetensors.Guarded(func() error {
		if t, ok := in(r.at.Name + "_zero_point"); ok && (t.DType != "I8" || len(t.Data) != t.Len() || slices.ContainsFunc(t.Data, func(b byte) bool { return b != 0 })) {
			return fmt.Errorf("tensor %q has codes for zero, which are not supported: codes must be symmetric", t.Name)
		}
		t, ok := in(r.at.Name + "_g_idx")
		switch {
		case !ok:
			return nil
		case int64(len(t.Data)) != t.DType.Bytes(int64(t.Len())):
			return fmt.Errorf("tensor %q is not read from the object store, and may name another order of inputs: push the model again", t.Name)
		}
		order, err := t.Ints()
		for input, group := range order {
			if group != -1 && group != int64(input/r.at.groupOf(r.shape[1])) { // -1: it says nothing
				return fmt.Errorf("tensor %q: input %d is of group %d, which is not supported: groups must be of neighbours (actorder null, weight or static)", t.Name, input, group)
			}
		}
		return err
	})
}

// groupedTo fills out with the numbers of a matrix in groups.
func (m *Model) groupedTo(r *resolved, ref Ref, out []float32) error {
	g, err := r.groupsOf()
	if err == nil {
		if err = g.FloatsTo(out, r.shape[1], groupedFormats[r.at.Dequant]); err != nil {
			err = fmt.Errorf("tensor %q: %w", r.scales.Name, err)
		}
	}
	if err != nil {
		return fmt.Errorf("model %s: %w (%v)", m.Name, err, ref)
	}
	return nil
}

// packed reads what files of compressed-tensors are packed by, and how many inputs share a scale. How the codes were
// found does not matter.
func (c *config) packed() (kind Dequant, group int) {
	c.ignore("ignore", "quantization_status", "global_compression_ratio", "version", "sparsity_config", "transform_config")
	if format := c.stringOr("format", packFormat); format != packFormat {
		c.fail("format is %q, supported is %s", format, packFormat)
	}
	for _, key := range []string{"sparsity_config", "transform_config"} {
		if raw, ok := c.raw[key]; ok && !neutral(key, raw) && !dense(raw) {
			c.fail("%s is not supported", key)
		}
	}
	var groups map[string]packGroup
	c.get("config_groups", &groups)
	if len(groups) != 1 {
		c.fail("config_groups has %d groups, supported is one", len(groups))
		return Grouped8, cpu.QGroup
	}
	for _, g := range groups {
		if err := g.check(); err != nil {
			c.fail("config_groups: %w", err)
			break
		}
		if kind, group = Grouped8, g.Weights.Group; g.Weights.Bits == groupedBits[Grouped4] {
			kind = Grouped4
		}
		if g.Weights.Strategy == byOutput {
			group = maxWidth
		}
		return kind, group
	}
	return Grouped8, cpu.QGroup
}

// byOutput is the strategy that has a scale for each output, and byGroup that with one for each group of its inputs.
const (
	byOutput = "channel"
	byGroup  = "group"
)

// dense reports whether a sparsity_config says that nothing is left out.
func dense(raw json.RawMessage) bool {
	var sparsity struct {
		Format string `json:"format"`
	}
	return json.Unmarshal(raw, &sparsity) == nil && sparsity.Format == "dense"
}

// packGroup is a group of matrices that are quantised alike.
type packGroup struct {
	Format  *string          `json:"format,omitempty"`
	Targets []string         `json:"targets"`
	Weights *packArgs        `json:"weights"`
	Inputs  *json.RawMessage `json:"input_activations"`
	Outputs *json.RawMessage `json:"output_activations"`
}

type packArgs struct {
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"`
	Symmetric bool   `json:"symmetric"`
	Strategy  string `json:"strategy"`
	Group     int    `json:"group_size"`
	Dynamic   bool   `json:"dynamic"`
	Order     any    `json:"actorder,omitempty"`
}

func (g packGroup) check() error {
	w := g.Weights
	switch {
	case g.Format != nil && *g.Format != packFormat:
		return fmt.Errorf("format is %q, supported is %s", *g.Format, packFormat)
	case g.Inputs != nil || g.Outputs != nil:
		return fmt.Errorf("activations are quantised, supported are weights alone: --precision says how rows are rounded")
	case w == nil:
		return fmt.Errorf("weights are missing")
	case w.Bits != 8 && w.Bits != 4 || w.Type != "int" || !w.Symmetric || w.Dynamic || !w.grouped():
		return fmt.Errorf("weights of type %s with num_bits %d, strategy %s, group_size %d, symmetric %v, dynamic %v; supported are int of 8 or 4, group of a multiple of %d or channel, true, false",
			w.Type, w.Bits, w.Strategy, w.Group, w.Symmetric, w.Dynamic, cpu.QGroup)
	case w.Order != nil && w.Order != false && w.Order != "weight" && w.Order != "static":
		return fmt.Errorf("actorder is %v, supported is weight", w.Order)
	}
	return nil
}

// grouped reports whether kernels have the scales for each cpu.QGroup inputs.
func (w *packArgs) grouped() bool {
	return w.Strategy == byOutput || w.Strategy == byGroup && w.Group > 0 && w.Group <= maxWidth && w.Group%cpu.QGroup == 0
}
