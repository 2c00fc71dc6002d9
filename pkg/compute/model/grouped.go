package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// A checkpoint that was quantised ahead has matrices (N, K) in groups of cpu.QGroup inputs, as
// compressed-tensors stores them ("pack-quantized"): in place of X are X_packed (N, K/4 or K/8), int32s
// of four or eight codes with 128 or 8 added, the first one's lowest; X_scale (N, K/32) in bf16; and
// X_shape, which repeats (N, K). Matrices that were stored as (inputs, outputs) are (outputs, inputs) there.
// Those of all experts in one tensor have a dimension before the others, and no X_shape: such stacks are ours alone.

// packFormat and packMethod are what quantization_config calls it.
const (
	packMethod = "compressed-tensors"
	packFormat = "pack-quantized"
)

// Grouped reports whether matrices are stored in groups.
func (d Dequant) Grouped() bool { return d == Grouped8 || d == Grouped4 }

// GroupedBits are those of a code of matrices in groups.
func (d Dequant) GroupedBits() int64 { return int64(groupedBits[d]) }

var groupedBits = map[Dequant]int{Grouped8: 8, Grouped4: 4}

// groupedFormats are what they are packed as.
var groupedFormats = map[Dequant]cpu.Format{Grouped8: cpu.Q8, Grouped4: cpu.Q4}

// groupedParts are the ends of the stored tensors' names.
func (t TensorRef) groupedParts() []string {
	parts := []string{t.Name + "_packed", t.Name + "_scale", t.Name + "_shape"}
	if t.Stacked {
		return parts[:2]
	}
	return parts
}

// groupedShapes are those of codes, scales and the shape.
func (t TensorRef) groupedShapes(n, k int) [][]int {
	all := [][]int{{n, k * groupedBits[t.Dequant] / 32}, {n, k / cpu.QGroup}, {2}}
	return all[:len(t.groupedParts())]
}

// Grouped is the format of a matrix that is stored in groups; false for others.
func (m *Model) Grouped(ref Ref) (cpu.Format, bool) {
	f, ok := groupedFormats[m.stored(ref).Dequant]
	return f, ok
}

// Groups are the codes and scales of a matrix that is stored in groups: views where they lie together.
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
	return cpu.Groups{Codes: r.gather(r.stored.Data), Scales: r.gather(r.scales.Data)}, nil
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

// packed reads what files of compressed-tensors are packed by. How the codes were found does not matter.
func (c *config) packed() Dequant {
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
		return Grouped8
	}
	for _, g := range groups {
		if err := g.check(); err != nil {
			c.fail("config_groups: %w", err)
		} else if g.Weights.Bits == groupedBits[Grouped4] {
			return Grouped4
		}
	}
	return Grouped8
}

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

// packArgs say how.
type packArgs struct {
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"`
	Symmetric bool   `json:"symmetric"`
	Strategy  string `json:"strategy"`
	Group     int    `json:"group_size"`
	Dynamic   bool   `json:"dynamic"`
	Order     any    `json:"actorder,omitempty"`
}

// check refuses what no kernel computes with.
func (g packGroup) check() error {
	w := g.Weights
	switch {
	case g.Format != nil && *g.Format != packFormat:
		return fmt.Errorf("format is %q, supported is %s", *g.Format, packFormat)
	case g.Inputs != nil || g.Outputs != nil:
		return fmt.Errorf("activations are quantised, supported are weights alone: --precision says how rows are rounded")
	case w == nil:
		return fmt.Errorf("weights are missing")
	case w.Bits != 8 && w.Bits != 4 || w.Type != "int" || !w.Symmetric || w.Dynamic || w.Strategy != "group" || w.Group != cpu.QGroup:
		return fmt.Errorf("weights of type %s with num_bits %d, strategy %s, group_size %d, symmetric %v, dynamic %v; supported are int of 8 or 4, group, %d, true, false",
			w.Type, w.Bits, w.Strategy, w.Group, w.Symmetric, w.Dynamic, cpu.QGroup)
	case w.Order != nil && w.Order != false && w.Order != "weight" && w.Order != "static":
		return fmt.Errorf("actorder is %v, supported is weight", w.Order)
	}
	return nil
}
