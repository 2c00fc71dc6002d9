package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/model"
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

// partOf is the number and the name of a role's part.
func partOf(r model.Role) (int, string) {
	for i, g := range groups {
		if r <= g.last {
			return i, g.name
		}
	}
	return len(groups), "experts"
}

// tally adds up parts.
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

// parts lists them in order.
func (t tally) parts() []Part {
	order := map[string]int{"experts": len(groups)}
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

// take makes a tally the report's.
func (r *Report) take(t tally) {
	r.Parts, r.Bytes = t.parts(), 0
	for _, p := range r.Parts {
		r.Bytes += p.Bytes
	}
}

// measure counts what the files hold. Elements of a packed type count as what is
// stored, so the parameters are those of the shape only where nothing is packed.
func (r *Report) measure(m *model.Model) {
	t := tally{}
	for ref, x := range m.Stored() {
		n := int64(x.Len())
		t.add(ref.Role, strings.ToLower(string(x.DType)), n, n*int64(x.DType.Bits())/8)
	}
	r.take(t)
	r.Stored = true
}

// keys are those of a config that say how weights are stored.
type keys struct {
	ModelType  string          `json:"model_type"`
	TorchDType string          `json:"torch_dtype"`
	DType      string          `json:"dtype"`
	Quant      *quantisation   `json:"quantization_config"`
	Text       json.RawMessage `json:"text_config"`
}

// quantisation is what quantization_config says. Kinds that are not known here
// count as not quantised.
type quantisation struct {
	Method string `json:"quant_method"`
	Block  []int  `json:"weight_block_size"`
}

// parseKeys fails for what is no model's config.
func parseKeys(data []byte) (k keys, err error) {
	if err := json.Unmarshal(data, &k); err != nil {
		return k, fmt.Errorf("%w: reading JSON: %w", ErrNoConfig, err)
	}
	if k.ModelType == "" {
		return k, fmt.Errorf("%w: it has no model_type", ErrNoConfig)
	}
	var text keys
	if k.Text != nil && json.Unmarshal(k.Text, &text) == nil {
		k.TorchDType = cmp.Or(k.TorchDType, text.TorchDType)
		k.DType = cmp.Or(k.DType, text.DType)
		if k.Quant == nil {
			k.Quant = text.Quant
		}
	}
	return k, nil
}

// dtype is the type of what is not quantised: published models that do not say
// it are bf16.
func (k keys) dtype() (name string, bytes int64) {
	switch cmp.Or(k.DType, k.TorchDType) {
	case "float32":
		return "f32", 4
	case "float16":
		return "f16", 2
	}
	return "bf16", 2
}

// estimate counts what files of the config's types would hold.
func (r *Report) estimate(s *model.Spec, k keys) {
	t := tally{}
	for need := range s.Needs() {
		n := int64(1)
		for _, dim := range need.Shape {
			n *= int64(dim)
		}
		name, bytes := k.stored(need.Ref.Role, need.Shape, n)
		t.add(need.Ref.Role, name, n*int64(need.Count), bytes*int64(need.Count))
	}
	r.take(t)
}

// stored is the type and the bytes of n elements of a role.
func (k keys) stored(role model.Role, shape []int, n int64) (dtype string, bytes int64) {
	name, size := k.dtype()
	if k.Quant == nil || len(shape) != 2 {
		return name, n * size
	}
	switch {
	case k.Quant.Method == "mxfp4" && role.IsExpert(): // two elements a byte, one exponent for 32
		return "mxfp4", n/2 + n/32
	case k.Quant.Method == "fp8" && len(k.Quant.Block) == 2 && role.IsLayer() && role != model.Router:
		return "f8_e4m3", n + 4*blocks(shape[0], k.Quant.Block[0])*blocks(shape[1], k.Quant.Block[1])
	}
	return name, n * size
}

// blocks is how many of a size cover n.
func blocks(n, size int) int64 { return int64((n + max(size, 1) - 1) / max(size, 1)) }
