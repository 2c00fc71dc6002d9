package model

import (
	"cmp"
	"encoding/json"
)

// bert2bertMoE: one BERT that reads, and another that answers, whose every layer
// also attends to what the first one made of the prompt.
//
// Source: transformers, models/encoder_decoder/modeling_encoder_decoder.py and
// models/bert/modeling_bert.py.
var bert2bertMoE = &family{
	modelType:     "bert2bert_moe",
	architectures: []string{"Bert2BertMoEForConditionalGeneration"},
	nested:        "decoder",
	read: func(c *config, s *Spec) {
		c.partType(bertMoE.modelType)
		for _, key := range []string{"is_decoder", "add_cross_attention"} {
			if !c.boolOr(key, false) {
				c.refuse(key, "false", "is not supported in a decoder that answers")
			}
		}
		layer := c.bert(s)
		layer.Cross = true
		s.fill(layer)
		s.bertEnds(c)
		s.readEncoder(c.outer)
		if ids := c.outer.tokens("decoder_start_token_id"); len(ids) == 1 {
			s.DecoderStart = int(ids[0])
		}
	},
	place: func(s *Spec, ref Ref) (string, Ref) {
		switch {
		case ref.Role >= EncoderEmbed && ref.Role <= EncoderNormBias:
			ref.Role -= EncoderEmbed - Embed
			return "encoder.", ref
		case ref.Role >= HeadDense && ref.Role <= HeadBias:
			return "decoder.", ref
		case ref.Role.IsLayer() && ref.Layer < s.EncoderLayers:
			return "encoder.", ref
		case ref.Role.IsLayer():
			ref.Layer -= s.EncoderLayers
		}
		return "decoder.bert.", ref
	},
	tensors: bertTensors,
	beside:  []string{"encoder.pooler."},
}

func (c *config) partType(want string) {
	var kind string
	if c.get("model_type", &kind); kind != want {
		c.refuse("model_type", kind, "is not supported here: only "+want+" is")
	}
}

// readEncoder puts an encoder's layers before those of the decoder.
func (s *Spec) readEncoder(outer *config) {
	c, err := parseConfig(outer.file+": encoder", outer.raw["encoder"])
	var e Spec
	if err == nil {
		e.readCommon(c)
		err = c.err
	}
	if err == nil { // the layers must be known before they are filled
		e.encoderOf(c, s)
		err = c.err
		outer.refused = cmp.Or(outer.refused, c.refused)
	}
	if err != nil {
		outer.err = err
		return
	}
	s.Encoder, s.EncoderLayers = e.Embedding, e.Layers
	s.Layer = append(e.Layer, s.Layer...)
	s.Layers += e.Layers
	s.MaxPositions = min(s.MaxPositions, e.MaxPositions)
}

// encoderOf reads an encoder, which must fit the decoder in d.
func (s *Spec) encoderOf(c *config, d *Spec) {
	c.partType(bertMoE.modelType)
	c.ignore("architectures")
	bertMoE.read(c, s)
	for _, n := range []struct {
		key       string
		own, want int
	}{
		{"hidden_size", s.Hidden, d.Hidden}, {"vocab_size", s.Vocab, d.Vocab},
		{"num_experts", s.Experts, d.Experts}, {"num_experts_per_tok", s.TopK, d.TopK},
	} {
		if n.own != n.want {
			text, _ := json.Marshal(n.want) // numbers encode
			c.refuse(n.key, shorten(c.raw[n.key]), "differs from the decoder's "+string(text)+", which is not supported")
		}
	}
	c.checkKnown(s)
	c.checkRest()
}
