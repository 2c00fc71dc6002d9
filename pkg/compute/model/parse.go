package model

import (
	"cmp"
	"fmt"
)

// ParseSpec reads config.json and, where there is one, generation_config.json
// (else nil). It checks all that can be known without the weights; the error
// names the key and its value.
func ParseSpec(configJSON, generationJSON []byte) (Spec, Generation, error) {
	p, err := parse(configJSON, generationJSON)
	return p.spec, p.generation, cmp.Or(err, p.refused)
}

// Description is what a config says of a model, of one that cannot be served, too.
type Description struct {
	Spec Spec
	// DType is what the weights are stored as, by its name in configs; empty if the
	// config does not say it.
	DType string
	// Refused is the key that forbids to serve the model; nil if none does.
	Refused error
}

// Describe is ParseSpec for who wants to know a model that cannot be served, too.
func Describe(configJSON []byte) (Description, error) {
	p, err := parse(configJSON, nil)
	return Description{Spec: p.spec, DType: p.dtype, Refused: p.refused}, err
}

type parsed struct {
	spec       Spec
	refused    error // a key that is understood and not supported
	family     *family
	generation Generation
	unknown    []string // keys of config.json that nothing here knows
	dtype      string   // of the stored weights; empty if config.json does not say it
}

func parse(configJSON, generationJSON []byte) (parsed, error) {
	c, err := parseConfig("config.json", configJSON)
	if err != nil {
		return parsed{}, err
	}
	var architectures []string
	c.get("architectures", &architectures)
	f, err := findFamily(c.stringOr("model_type", ""), architectures)
	if err != nil {
		return parsed{}, err
	}
	if c, err = c.text(f); err != nil {
		return parsed{}, err
	}
	s := Spec{Family: f.modelType}
	s.readCommon(c)
	if c.err != nil { // the layers must be known before a family fills them
		return parsed{}, c.err
	}
	f.read(c, &s)
	s.Quant, s.QuantGroup, s.QuantShuffled = c.quantisation()
	c.checkKnown(&s)
	c.checkLayerTypes(&s)
	c.giveRopes(&s)
	unknown := c.checkRest()
	if c.outer != nil {
		c.err, c.refused = cmp.Or(c.err, c.outer.err), cmp.Or(c.refused, c.outer.refused)
	}
	if c.err != nil {
		return parsed{}, c.err
	}
	g, err := parseGeneration(generationJSON, &s)
	if err != nil {
		return parsed{}, err
	}
	return parsed{s, c.refused, f, g, unknown, c.dtype()}, s.check()
}

// readCommon reads the keys that mean the same in every family.
func (s *Spec) readCommon(c *config) {
	s.Layers = c.size("num_hidden_layers", maxLayers)
	s.Hidden = c.size("hidden_size", maxHidden)
	s.Vocab = c.size("vocab_size", maxVocab)
	s.MaxPositions = c.size("max_position_embeddings", maxPositions)
	s.TopK = c.size("num_experts_per_tok", maxExperts)
	s.TiedEmbeddings = c.boolOr("tie_word_embeddings", false)
	s.EOS = c.tokens("eos_token_id")
	s.BOS, s.Mask, s.DecoderStart = -1, -1, -1
	if ids := c.tokens("bos_token_id"); len(ids) == 1 {
		s.BOS = int(ids[0])
	}
	s.Layer = make([]LayerSpec, min(s.Layers, maxLayers))
}

func (s *Spec) check() error {
	switch {
	case s.TopK > s.Experts:
		return fmt.Errorf("config.json: num_experts_per_tok %d is more than the %d experts", s.TopK, s.Experts)
	case s.MoELayers() == 0:
		return fmt.Errorf("config.json: no layer has experts")
	}
	for _, id := range []struct {
		key   string
		token int
	}{{"bos_token_id", s.BOS}, {"mask_token_id", s.Mask}, {"decoder_start_token_id", s.DecoderStart}} {
		if id.token >= s.Vocab {
			return fmt.Errorf("config.json: %s %d is outside the vocabulary of %d", id.key, id.token, s.Vocab)
		}
	}
	for _, id := range s.EOS {
		if int64(id) >= int64(s.Vocab) {
			return fmt.Errorf("eos_token_id %d is outside the vocabulary of %d", id, s.Vocab)
		}
	}
	for i := range s.Layer {
		if err := s.Layer[i].Mixer.check(); err != nil {
			return fmt.Errorf("config.json: %w", err)
		}
		if err := s.Layer[i].Router.check(s); err != nil {
			return fmt.Errorf("config.json: %w", err)
		}
	}
	return s.checkParameters()
}

// checkParameters refuses sizes that are each within bounds, and make together a
// model whose parameters could not be counted.
func (s *Spec) checkParameters() error {
	total := elements(s.outerNeeds())
	for l := range s.Layers {
		if total += elements(s.layerNeeds(l)) + int64(s.Experts)*s.expertParameters(l); total > maxParameters {
			return fmt.Errorf("config.json: the first %d of %d layers have %d parameters; a model may have %d", l+1, s.Layers, total, int64(maxParameters))
		}
	}
	return nil
}

// check refuses groups that do not part the experts, or cannot yield enough of them.
func (r *RouterSpec) check(s *Spec) error {
	if r.Groups <= 1 {
		return nil
	}
	size := s.Experts / r.Groups
	switch {
	case s.Experts%r.Groups != 0:
		return fmt.Errorf("%d experts are not a multiple of n_group %d", s.Experts, r.Groups)
	case r.TopGroups < 1 || r.TopGroups > r.Groups:
		return fmt.Errorf("topk_group %d is outside 1..%d, the number of groups", r.TopGroups, r.Groups)
	case s.TopK > r.TopGroups*size:
		return fmt.Errorf("num_experts_per_tok %d is more than the %d experts of topk_group %d", s.TopK, r.TopGroups*size, r.TopGroups)
	case r.GroupPairs && size < 2:
		return fmt.Errorf("n_group %d leaves groups of one expert, whose best two cannot be summed", r.Groups)
	}
	return nil
}

func (m *MixerSpec) check() error {
	switch {
	case m.Heads%m.KVHeads != 0:
		return fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", m.Heads, m.KVHeads)
	case m.Rope.Kind != NoRope && (m.Rope.Dim%2 != 0 || m.Rope.Dim < 2):
		return fmt.Errorf("%d dimensions of a head cannot be turned: rotary embedding turns pairs", m.Rope.Dim)
	}
	return nil
}

// Generation is the sampling that generation_config.json asks for when a
// request does not say otherwise.
type Generation struct {
	DoSample          bool    // false: greedy
	Temperature       float64 // > 0; 1 changes nothing
	TopP              float64 // in (0, 1]; 1 is off
	TopK              int     // 0 is off
	RepetitionPenalty float64 // > 0; 1 is off
	MaxNewTokens      int     // 0: not given
}

// DefaultGeneration returns what holds without the file: greedy.
func DefaultGeneration() Generation {
	return Generation{Temperature: 1, TopP: 1, RepetitionPenalty: 1}
}

// parseGeneration reads generation_config.json; its end-of-sequence and
// begin-of-sequence tokens win over config.json's.
func parseGeneration(data []byte, s *Spec) (Generation, error) {
	g := DefaultGeneration()
	if data == nil {
		return g, nil
	}
	c, err := parseConfig("generation_config.json", data)
	if err != nil {
		return g, err
	}
	c.get("do_sample", &g.DoSample)
	c.get("temperature", &g.Temperature)
	c.get("top_p", &g.TopP)
	c.get("top_k", &g.TopK)
	c.get("repetition_penalty", &g.RepetitionPenalty)
	c.get("max_new_tokens", &g.MaxNewTokens)
	if ids := c.tokens("eos_token_id"); len(ids) > 0 {
		s.EOS = ids
	}
	if ids := c.tokens("bos_token_id"); len(ids) == 1 && s.BOS < 0 {
		s.BOS = int(ids[0])
	}
	if ids := c.tokens("decoder_start_token_id"); len(ids) == 1 && s.DecoderStart < 0 {
		s.DecoderStart = int(ids[0])
	}
	if c.err != nil {
		return g, c.err
	}
	return g, g.check()
}

func (g *Generation) check() error {
	bad := func(key string, value any, want string) error {
		return fmt.Errorf("generation_config.json: %s = %v is not %s", key, value, want)
	}
	if g.Temperature == 0 { // some files write greedy so
		g.DoSample, g.Temperature = false, 1
	}
	switch {
	case !(g.Temperature > 0):
		return bad("temperature", g.Temperature, "positive")
	case !(g.TopP > 0 && g.TopP <= 1):
		return bad("top_p", g.TopP, "in (0, 1]")
	case g.TopK < 0:
		return bad("top_k", g.TopK, "0 (off) or more")
	case !(g.RepetitionPenalty > 0):
		return bad("repetition_penalty", g.RepetitionPenalty, "positive")
	case g.MaxNewTokens < 0:
		return bad("max_new_tokens", g.MaxNewTokens, "0 or more")
	}
	return nil
}
