package upcycle

import (
	"regexp"
	"strings"
)

// dense is the facts about a dense architecture: how it is published, and what
// it is called once it has experts.
type dense struct {
	modelType         string
	moeType           string
	moeArchitecture   string
	parts             []string // keys of config.json under which models lie; none: it is one itself
	partType, partMoE string   // model_type of the parts, before and after

	prefix    string         // of names that are published without it
	dropped   *regexp.Regexp // tensors that computing does without
	tied      *regexp.Regexp // those that repeat the embedding where it is the head
	mlp       *regexp.Regexp // a feed-forward network's tensors: what stands before it, its layer and the rest
	gate      string         // $1 and $2 of mlp
	expert    string         // $1, $2, {e} and $3
	firstIn   string         // the end of the name of the matrix that reads rows…
	inputAxis int            // …and which of its dimensions they have
}

// kinds are in the layouts that the package's comment names. A published GPT-2
// may lack the prefix; an old BERT calls a norm's weight and bias gamma and beta.
var kinds = []dense{gpt2, bert, bert2bert}

var gpt2 = dense{
	modelType: "gpt2", moeType: "gpt2_moe", moeArchitecture: "GPT2MoEForCausalLM",
	prefix:  "transformer.",
	dropped: regexp.MustCompile(`\.attn\.(bias|masked_bias)$`),
	tied:    regexp.MustCompile(`^lm_head\.weight$`),
	mlp:     regexp.MustCompile(`^(transformer\.h\.)(\d+)\.mlp\.((?:c_fc|c_proj)\.(?:weight|bias))$`),
	gate:    "$1$2.mlp.gate.weight", expert: "$1$2.mlp.experts.{e}.$3",
	firstIn: ".c_fc.weight", inputAxis: 0,
}

var bert = dense{
	modelType: "bert", moeType: "bert_moe", moeArchitecture: "BertMoEForMaskedLM",
	dropped: regexp.MustCompile(`(^|\.)(pooler\.dense\.|cls\.seq_relationship\.|cls\.predictions\.decoder\.bias$|embeddings\.position_ids$)`),
	tied:    regexp.MustCompile(`(^|\.)cls\.predictions\.decoder\.weight$`),
	mlp:     regexp.MustCompile(`^((?:bert|encoder|decoder\.bert)\.encoder\.layer\.)(\d+)\.((?:intermediate|output)\.dense\.(?:weight|bias))$`),
	gate:    "$1$2.moe.gate.weight", expert: "$1$2.moe.experts.{e}.$3",
	firstIn: ".intermediate.dense.weight", inputAxis: 1,
}

// bert2bert has an encoder's and a decoder's tensors under their own prefixes.
var bert2bert = dense{
	modelType: "encoder-decoder", moeType: "bert2bert_moe", moeArchitecture: "Bert2BertMoEForConditionalGeneration",
	parts: []string{"encoder", "decoder"}, partType: bert.modelType, partMoE: bert.moeType,
	dropped: bert.dropped, tied: bert.tied, mlp: bert.mlp, gate: bert.gate, expert: bert.expert,
	firstIn: bert.firstIn, inputAxis: bert.inputAxis,
}

// oldNorms are the names that BERT's first checkpoints have.
var oldNorms = strings.NewReplacer("LayerNorm.gamma", "LayerNorm.weight", "LayerNorm.beta", "LayerNorm.bias")

// rename is the name of a published tensor in the new checkpoint, empty where
// it has none.
func (d *dense) rename(name string, tied bool) string {
	if d.prefix != "" && !strings.HasPrefix(name, d.prefix) && !d.tied.MatchString(name) {
		name = d.prefix + name
	}
	if d.dropped.MatchString(name) || tied && d.tied.MatchString(name) {
		return ""
	}
	return oldNorms.Replace(name)
}
