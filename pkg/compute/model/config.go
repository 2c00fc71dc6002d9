package model

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Bounds on what a config may ask for: far above any published model, and low
// enough that products of three of them fit an int64.
const (
	maxLayers    = 4096
	maxExperts   = 16384
	maxHidden    = 1 << 18
	maxWidth     = 1 << 20
	maxHeads     = 4096
	maxHeadDim   = 4096
	maxVocab     = 1 << 24
	maxPositions = 1 << 30
	maxTypes     = 1 << 16
	// maxParameters is of all of them together.
	maxParameters = 1 << 50
)

// config reads config.json key by key. It keeps the first error and which keys
// were asked for, so that what remains can be judged by checkRest.
type config struct {
	file string // for errors
	raw  map[string]json.RawMessage
	used map[string]bool
	as   map[string]string // the family's names of common keys
	// defaults are what the family takes absent keys for.
	defaults map[string]string
	ropes    map[string]RopeSpec // by type of layer, where these differ
	// outer is the whole config, where this is what nested names in it.
	outer *config
	err   error
	// refused is the first key that is understood and not supported: what the
	// rest says can still be read.
	refused error
}

func parseConfig(file string, data []byte) (*config, error) {
	c := &config{file: file, used: map[string]bool{}}
	if err := json.Unmarshal(data, &c.raw); err != nil {
		return nil, fmt.Errorf("%s: reading JSON object: %w", file, err)
	}
	return c, nil
}

// text returns the part of the config that describes the text model, with the names
// that the family gives to keys.
func (c *config) text(f *family) (*config, error) {
	if f.nested == "" {
		c.as, c.defaults = f.keys, f.defaults
		return c, c.err
	}
	raw, ok := c.raw[f.nested]
	if !ok {
		return nil, fmt.Errorf("%s: %s is missing, but needed", c.file, f.nested)
	}
	t, err := parseConfig(c.file+": "+f.nested, raw)
	if err != nil {
		return nil, err
	}
	t.as, t.defaults, t.outer = f.keys, f.defaults, c
	t.ignore("architectures", "model_type")
	for _, key := range outerKeys {
		value, outside := c.raw[key]
		if inside, there := t.raw[key]; outside && (!there || string(inside) == "null") {
			t.raw[key] = value
		}
	}
	return t, nil
}

// outerKeys are about the text model even where they stand beside its config.
var outerKeys = []string{"bos_token_id", "eos_token_id", "tie_word_embeddings", "quantization_config"}

func (c *config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(c.file+": "+format, args...)
	}
}

// refuse is for a key whose value is understood but not supported; it keeps the first.
func (c *config) refuse(key, value, why string) {
	if c.refused == nil {
		c.refused = fmt.Errorf("%s: %s = %s %s", c.file, key, value, why)
	}
}

func (c *config) ignore(keys ...string) {
	for _, key := range keys {
		c.used[key] = true
	}
}

// get decodes a key into to. It reports false where the key is absent or null,
// or where the value has another type, which fails.
func (c *config) get(key string, to any) bool {
	key = c.name(key)
	c.used[key] = true
	raw, ok := c.raw[key]
	if !ok {
		raw = json.RawMessage(c.defaults[key])
	}
	if len(raw) == 0 || string(raw) == "null" {
		return false
	}
	if err := json.Unmarshal(raw, to); err != nil {
		c.fail("%s = %s: %w", key, shorten(raw), err)
		return false
	}
	return true
}

func (c *config) name(key string) string {
	if own, ok := c.as[key]; ok {
		return own
	}
	return key
}

// size reads a required number in 1..limit.
func (c *config) size(key string, limit int) int {
	n := c.sizeOr(key, 0, limit)
	if n == 0 {
		c.fail("%s is missing, but needed", c.name(key))
	}
	return n
}

// sizeOr reads a number in 1..limit; or stands for an absent or null key.
func (c *config) sizeOr(key string, or, limit int) int {
	var n int
	if !c.get(key, &n) {
		return or
	}
	if n < 1 || n > limit {
		c.fail("%s = %d is outside 1..%d", c.name(key), n, limit)
		return 1
	}
	return n
}

// countOr reads a number in 0..limit; or stands for an absent key, 0 for null.
func (c *config) countOr(key string, or, limit int) int {
	var n int
	if !c.get(key, &n) {
		if _, null := c.raw[c.name(key)]; null {
			return 0
		}
		return or
	}
	if n < 0 || n > limit {
		c.fail("%s = %d is outside 0..%d", c.name(key), n, limit)
		return 0
	}
	return n
}

func (c *config) ints(key string) []int {
	var list []int
	c.get(key, &list)
	return list
}

func (c *config) boolOr(key string, or bool) bool {
	c.get(key, &or)
	return or
}

func (c *config) stringOr(key, or string) string {
	c.get(key, &or)
	return or
}

// truthOr reads true or false, or a number, of which 0 is false.
func (c *config) truthOr(key string, or bool) bool {
	var value any
	if !c.get(key, &value) {
		return or
	}
	switch v := value.(type) {
	case bool:
		return v
	case float64:
		return v != 0
	}
	c.fail("%s = %v is neither true nor false", c.name(key), value)
	return or
}

// floatOr reads a positive finite number.
func (c *config) floatOr(key string, or float64) float64 {
	c.get(key, &or)
	if !(or > 0) || math.IsInf(float64(float32(or)), 0) {
		c.fail("%s = %v is not a positive number", c.name(key), or)
	}
	return or
}

// zeroOrMore reads a finite number that is not negative; absent is 0.
func (c *config) zeroOrMore(key string) float64 {
	var x float64
	c.get(key, &x)
	if !(x >= 0) || math.IsInf(float64(float32(x)), 0) {
		c.fail("%s = %v is not a number of 0 or more", c.name(key), x)
	}
	return x
}

// tokens reads a token id or a list of them.
func (c *config) tokens(key string) []uint32 {
	var id uint32
	c.used[key] = true
	if json.Unmarshal(c.raw[key], &id) == nil && string(c.raw[key]) != "null" {
		return []uint32{id}
	}
	var ids []uint32
	c.get(key, &ids)
	return ids
}

// dtype returns what the whole config says that weights are stored as or, where it does
// not, what the part of the text model says; empty if neither does.
func (c *config) dtype() string {
	for _, part := range []*config{c.outer, c} {
		if part == nil {
			continue
		}
		for _, key := range []string{"dtype", "torch_dtype"} {
			var name string
			if json.Unmarshal(part.raw[key], &name) == nil && name != "" {
				return name
			}
		}
	}
	return ""
}

// checkKnown refuses values of common keys that change the numbers, and that the
// family did not read.
func (c *config) checkKnown(s *Spec) {
	causal := !s.Layer[len(s.Layer)-1].Mixer.Bidirectional
	if got := c.boolOr("is_causal", causal); got != causal {
		c.refuse("is_causal", strconv.FormatBool(got), "is not supported by this architecture")
	}
	if c.used[c.name("hidden_act")] {
		return
	}
	if act := c.stringOr("hidden_act", "silu"); act != "silu" {
		c.refuse("hidden_act", act, "is not supported: only silu is")
	}
}

// trainingOnly matches names of keys that inference does not feel.
var trainingOnly = regexp.MustCompile(`dropout|pdrop|_loss|initializer|jitter_noise|^output_(attentions|hidden_states|router_logits)$|attn_implementation|experts_implementation|use_flash_attn`)

// changesNumbers matches names of keys that, not being known, may change what
// the model computes.
var changesNumbers = regexp.MustCompile(`(?i)quant|rope|rotary|attn|attention|window|chunk|norm|bias|scal|softcap|logit|act|expert|mlp|moe|rout|shared|gate|sink|clip|alibi|lora|mup|multiplier|mamba|latent|layer_types|linear|residual|partial|embedding|group|sparse|is_encoder|encoder|cross|vision|adapter`)

// irrelevant matches names of keys that every checkpoint may have and that
// change nothing here: names, storage, padding, classification.
var irrelevant = regexp.MustCompile(`^(_.*|transformers_version|torch_dtype|dtype|auto_map|use_cache|pad_token_id|sep_token_id|` +
	`unk_token_id|decoder_start_token_id|use_return_dict|return_dict|torchscript|problem_type|finetuning_task|id2label|label2id|` +
	`num_labels|tokenizer_class)$`)

// checkRest judges the keys that nobody read and that are not null, false or
// empty. It refuses those that sound as if they changed the numbers, and
// returns, sorted, those that say nothing to it.
func (c *config) checkRest() (unknown []string) {
	var felt []string
	for key, value := range c.raw {
		switch {
		case c.used[key] || neutral(key, value) || trainingOnly.MatchString(key) || irrelevant.MatchString(key):
		case changesNumbers.MatchString(key):
			felt = append(felt, key)
		default:
			unknown = append(unknown, key)
		}
	}
	sort.Strings(felt) // one message whatever the map's order
	sort.Strings(unknown)
	if len(felt) > 0 {
		c.refuse(felt[0], shorten(c.raw[felt[0]]), "is not supported")
	}
	return unknown
}

// checkLayerTypes compares an explicit list of attention kinds with the windows
// that the spec arrived at.
func (c *config) checkLayerTypes(s *Spec) {
	var kinds []string
	if !c.get("layer_types", &kinds) {
		return
	}
	var want []string
	for _, layer := range s.Layer {
		want = append(want, layer.Mixer.layerType())
	}
	if !slices.Equal(kinds, want) {
		c.refuse("layer_types", shorten(c.raw["layer_types"]), "does not agree with the keys of windows and chunks")
	}
}

// layerType returns what configs call layers that see as much.
func (m *MixerSpec) layerType() string {
	switch {
	case m.Window > 0:
		return "sliding_attention"
	case m.Chunk > 0:
		return "chunked_attention"
	}
	return "full_attention"
}

// neutral reports whether a value switches a feature off, or scales by one.
func neutral(key string, raw json.RawMessage) bool {
	if slices.Contains([]string{"null", "false", "{}", "[]", `""`, "0", "0.0"}, string(raw)) {
		return true
	}
	one := string(raw) == "1" || string(raw) == "1.0"
	return one && (strings.HasSuffix(key, "_factor") || strings.HasSuffix(key, "_multiplier") || strings.HasSuffix(key, "_scale"))
}

// shorten keeps a value readable in an error.
func shorten(raw json.RawMessage) string {
	const limit = 120
	if len(raw) > limit {
		return string(raw[:limit]) + "…"
	}
	return string(raw)
}
