package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// groups are the parts in the order of the report, each with its last role; the
// experts' follow.
var groups = []struct {
	name string
	last model.Role
}{
	{"embedding", model.EncoderNormBias},
	{"head", model.HeadBias},
	{"norms", model.PostNormBias},
	{"attention", model.CrossOBias},
	{"router", model.RouterCorrection},
	{"dense", model.DenseDownBias},
	{"shared", model.SharedRouter},
}

// expertsPart are the routed experts, behind all groups.
const expertsPart = "experts"

// partOf returns the number and the name of a role's part.
func partOf(r model.Role) (int, string) {
	for i, g := range groups {
		if r <= g.last {
			return i, g.name
		}
	}
	return len(groups), expertsPart
}

type tally map[[2]string]*Part

func (t tally) add(role model.Role, dtype string, parameters, bytes int64) {
	_, name := partOf(role)
	key := [2]string{name, dtype}
	if t[key] == nil {
		t[key] = &Part{Name: name, DType: dtype}
	}
	t[key].Parameters += parameters
	t[key].Bytes += bytes
}

func (t tally) parts() []Part {
	order := map[string]int{expertsPart: len(groups)}
	for i, g := range groups {
		order[g.name] = i
	}
	list := []Part{}
	for _, p := range t {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Part) int {
		return cmp.Or(cmp.Compare(order[a.Name], order[b.Name]), cmp.Compare(a.DType, b.DType))
	})
	return list
}

func (r *Report) take(t tally) {
	r.Parts, r.Bytes = t.parts(), 0
	for _, p := range r.Parts {
		r.Bytes += p.Bytes
	}
}

// measure counts what the files hold. Scales of a packed type count with it.
func (r *Report) measure(m *model.Model) {
	t := tally{}
	for need := range m.Spec.Needs() {
		t.add(need.Ref.Role, dtypeOf(m, need.Ref), elements(need.Shape)*int64(need.Count), 0)
	}
	for ref, x := range m.Stored() {
		t.add(ref.Role, dtypeOf(m, ref), 0, x.DType.Bytes(int64(x.Len())))
	}
	r.take(t)
	r.Stored = true
}

// dtypeOf returns what a ref's numbers are stored as.
func dtypeOf(m *model.Model, ref model.Ref) string {
	t, err := m.Stat(ref)
	switch {
	case err != nil: // the model was opened, so it has it
		return "unknown"
	case t.DType == safetensors.F4:
		return mxfp4
	case m.Dequant(ref).Int4():
		return int4
	case m.Dequant(ref).Grouped():
		return grouped(m.Dequant(ref))
	}
	return strings.ToLower(string(t.DType))
}

// mxfp4 is the name of 4-bit elements with an exponent for 32 of them.
const mxfp4 = "mxfp4"

// grouped returns the name of codes with a scale for 32 of them.
func grouped(d model.Dequant) string {
	if d == model.Grouped4 {
		return string(model.Q4)
	}
	return string(model.Q8)
}

// int4 is the name of 4-bit codes as GPTQ and AWQ pack them.
const int4 = "int4"

func elements(shape []int) int64 {
	n := int64(1)
	for _, dim := range shape {
		n *= int64(dim)
	}
	return n
}

// familyOf fails for what is no model's config.
func familyOf(data []byte) (string, error) {
	var config struct {
		ModelType string `json:"model_type"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return "", fmt.Errorf("%w: reading JSON: %w", ErrNoConfig, err)
	}
	if config.ModelType == "" {
		return "", fmt.Errorf("%w: it has no model_type", ErrNoConfig)
	}
	return config.ModelType, nil
}

// unpacked returns the type of what is not quantised, by its name in configs: published
// models that do not say it are bf16.
func unpacked(dtype string) (name string, bytes int64) {
	switch dtype {
	case "float32":
		return "f32", 4
	case "float16":
		return "f16", 2
	}
	return "bf16", 2
}

// estimate counts what files of the config's types would hold.
func (r *Report) estimate(d *model.Description) {
	t := tally{}
	for need := range d.Spec.Needs() {
		n := elements(need.Shape)
		name, bytes := stored(d, need.Ref.Role, need.Shape, n)
		t.add(need.Ref.Role, name, n*int64(need.Count), bytes*int64(need.Count))
	}
	r.take(t)
}

// stored returns the type and the bytes of n elements of a role. A quantisation that
// this build does not know counts as none.
func stored(d *model.Description, role model.Role, shape []int, n int64) (dtype string, bytes int64) {
	name, size := unpacked(d.DType)
	if len(shape) != 2 {
		return name, n * size
	}
	switch q := d.Spec.Quant; {
	case q == model.MXFP4 && role.IsExpert(): // two elements a byte
		return mxfp4, n/2 + n/cpu.MXBlock
	case q.Int4() && role.IsLayer() && role != model.Router: // codes, and for each group a scale in f16 and a code
		return int4, n/2 + int64(shape[0])*int64((shape[1]+d.Spec.QuantGroup-1)/max(1, d.Spec.QuantGroup))*5/2
	case q.Grouped() && role.Rounded() && role != model.Embed: // codes, scales, and the shape
		return grouped(q), n*q.GroupedBits()/8 + n/int64(min(d.Spec.QuantGroup, shape[1]))*2 + 16
	case q == model.FP8Blocks && role.IsLayer() && role != model.Router:
		return "f8_e4m3", n + 4*blocks(shape[0])*blocks(shape[1])
	}
	return name, n * size
}

func blocks(n int) int64 { return int64(cpu.FP8Scales(n)) }
