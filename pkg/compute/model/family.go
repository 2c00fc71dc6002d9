package model

import (
	"fmt"
	"slices"
	"strings"
)

// family is the facts about one architecture. To add one, write its file and
// list it in families.
type family struct {
	modelType     string
	architectures []string // any of them
	// nested is the key whose object has the text model's keys; empty: the config itself.
	nested string
	// keys are its names of common keys that it does not call as Llama does.
	keys map[string]string
	// defaults are the values of common keys, as JSON, where a config has them not.
	defaults map[string]string
	// read fills what the common keys do not say, first of all the layers.
	read func(c *config, s *Spec)
	// tensors maps roles to tensors, where they are not decoderTensors.
	tensors map[Role]TensorRef
	prefix  string
	// beside begin the names of tensors that are no part of the text model.
	beside []string
	// gguf is what llama.cpp calls the architecture; empty: GGUF files of it are not read.
	gguf string
	// place, if not nil, says what stands before ref's name instead, and which role
	// and layer it is there.
	place func(s *Spec, ref Ref) (prefix string, there Ref)
}

var families = []*family{
	mixtral,
	qwen2MoE,
	qwen3MoE,
	olmoe,
	phiMoE,
	llama4Text,
	llama4,
	deepseekV2,
	deepseekV3,
	kimiK2,
	gptOSS,
	gpt2MoE,
	bertMoE,
	bert2bertMoE,
}

// decoderTensors are the names that Llama's descendants share.
var decoderTensors = map[Role]TensorRef{
	Embed:         {Name: "model.embed_tokens.weight"},
	FinalNorm:     {Name: "model.norm.weight"},
	FinalNormBias: {Name: "model.norm.bias"},
	Head:          {Name: "lm_head.weight"},
	HeadBias:      {Name: "lm_head.bias"},
	InputNorm:     {Name: "model.layers.{l}.input_layernorm.weight"},
	InputNormBias: {Name: "model.layers.{l}.input_layernorm.bias"},
	PostNorm:      {Name: "model.layers.{l}.post_attention_layernorm.weight"},
	PostNormBias:  {Name: "model.layers.{l}.post_attention_layernorm.bias"},
	Q:             {Name: "model.layers.{l}.self_attn.q_proj.weight"},
	K:             {Name: "model.layers.{l}.self_attn.k_proj.weight"},
	V:             {Name: "model.layers.{l}.self_attn.v_proj.weight"},
	O:             {Name: "model.layers.{l}.self_attn.o_proj.weight"},
	QBias:         {Name: "model.layers.{l}.self_attn.q_proj.bias"},
	KBias:         {Name: "model.layers.{l}.self_attn.k_proj.bias"},
	VBias:         {Name: "model.layers.{l}.self_attn.v_proj.bias"},
	OBias:         {Name: "model.layers.{l}.self_attn.o_proj.bias"},
	QNorm:         {Name: "model.layers.{l}.self_attn.q_norm.weight"},
	KNorm:         {Name: "model.layers.{l}.self_attn.k_norm.weight"},
	Sinks:         {Name: "model.layers.{l}.self_attn.sinks"},
	DenseGate:     {Name: "model.layers.{l}.mlp.gate_proj.weight"},
	DenseUp:       {Name: "model.layers.{l}.mlp.up_proj.weight"},
	DenseDown:     {Name: "model.layers.{l}.mlp.down_proj.weight"},
	Router:        {Name: "model.layers.{l}.mlp.gate.weight"},
	ExpertGate:    {Name: "model.layers.{l}.mlp.experts.{e}.gate_proj.weight"},
	ExpertUp:      {Name: "model.layers.{l}.mlp.experts.{e}.up_proj.weight"},
	ExpertDown:    {Name: "model.layers.{l}.mlp.experts.{e}.down_proj.weight"},
}

// tensor returns where the family keeps ref of a model.
func (f *family) tensor(s *Spec, ref Ref) TensorRef {
	prefix := f.prefix
	if f.place != nil {
		prefix, ref = f.place(s, ref)
	}
	t, own := f.tensors[ref.Role]
	if !own {
		t = decoderTensors[ref.Role]
	}
	t = t.at(ref)
	t.Name = prefix + t.Name
	if t.Paired {
		t.Heads = s.heads(ref)
	}
	return t
}

// findFamily looks a config's architecture up; model_type decides where
// architectures is missing.
func findFamily(modelType string, architectures []string) (*family, error) {
	for _, f := range families {
		named := len(architectures) == 0 || len(architectures) == 1 && slices.Contains(f.architectures, architectures[0])
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
		names = append(names, fmt.Sprintf("%s (%s)", f.architectures[0], f.modelType))
	}
	return names
}
