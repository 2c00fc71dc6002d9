package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// family is the facts about one architecture. To add one, write its file and
// list it in families.
type family struct {
	modelType    string
	architecture string
	// read fills what the common keys do not say.
	read func(c *config, s *Spec)
	// names maps roles to tensor names; {l} and {e} stand for layer and expert.
	names map[Role]string
}

var families = []*family{mixtral, qwen2MoE}

// decoderNames are the tensor names that Llama's descendants share.
var decoderNames = map[Role]string{
	Embed:     "model.embed_tokens.weight",
	FinalNorm: "model.norm.weight",
	Head:      "lm_head.weight",
	InputNorm: "model.layers.{l}.input_layernorm.weight",
	PostNorm:  "model.layers.{l}.post_attention_layernorm.weight",
	Q:         "model.layers.{l}.self_attn.q_proj.weight",
	K:         "model.layers.{l}.self_attn.k_proj.weight",
	V:         "model.layers.{l}.self_attn.v_proj.weight",
	O:         "model.layers.{l}.self_attn.o_proj.weight",
	QBias:     "model.layers.{l}.self_attn.q_proj.bias",
	KBias:     "model.layers.{l}.self_attn.k_proj.bias",
	VBias:     "model.layers.{l}.self_attn.v_proj.bias",
	DenseGate: "model.layers.{l}.mlp.gate_proj.weight",
	DenseUp:   "model.layers.{l}.mlp.up_proj.weight",
	DenseDown: "model.layers.{l}.mlp.down_proj.weight",
}

// tensorName is what the family calls ref.
func (f *family) tensorName(ref Ref) string {
	name, own := f.names[ref.Role]
	if !own {
		name = decoderNames[ref.Role]
	}
	name = strings.Replace(name, "{l}", strconv.Itoa(ref.Layer), 1)
	return strings.Replace(name, "{e}", strconv.Itoa(ref.Expert), 1)
}

// findFamily looks a config's architecture up; model_type decides where
// architectures is missing.
func findFamily(modelType string, architectures []string) (*family, error) {
	for _, f := range families {
		named := len(architectures) == 0 || slices.Equal(architectures, []string{f.architecture})
		if f.modelType == modelType && named {
			return f, nil
		}
	}
	return nil, fmt.Errorf("config.json: architecture %v with model_type %q is not supported; supported are %s",
		architectures, modelType, strings.Join(Supported(), ", "))
}

// Supported lists the architectures that Open takes.
func Supported() []string {
	var names []string
	for _, f := range families {
		names = append(names, fmt.Sprintf("%s (%s)", f.architecture, f.modelType))
	}
	return names
}
