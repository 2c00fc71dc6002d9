package model

import "iter"

// Spec is what a checkpoint's config says, in one vocabulary for all families.
type Spec struct {
	Family       string // config.json's model_type
	Layers       int
	Hidden       int // d
	Vocab        int
	MaxPositions int

	Embedding      EmbeddingSpec
	Layer          []LayerSpec // one a layer
	FinalNorm      NormSpec
	Head           HeadSpec
	TiedEmbeddings bool // the head is the embedding

	// EncoderLayers is how many layers, from the first on, are an encoder's. If
	// others follow, those are a decoder's, and Encoder is what the encoder's rows
	// begin with. Both are numbered in one count: the decoder's first layer is layer
	// EncoderLayers.
	EncoderLayers int
	Encoder       EmbeddingSpec

	// NextLayers is how many layers beyond the others predict further tokens; they
	// are not computed, and their tensors not missed.
	NextLayers int

	Quant Dequant // of the files' matrices; of FP8 each says by its dtype whether it is
	// QuantGroup is how many inputs share a scale, in int4 and in groups.
	QuantGroup int
	// QuantShuffled says that inputs may be in any order of groups, in GPTQ.
	QuantShuffled bool
	Experts       int // of each MoE layer
	TopK          int // experts of a token

	Mask         int // the token whose places an encoder fills; -1: the tokenizer says
	DecoderStart int // what a decoder that answers begins with; -1: not known

	BOS int      // -1 without one
	EOS []uint32 // any of them ends a text; may be empty
}

// LayerSpec is the parts of a layer.
type LayerSpec struct {
	Order NormOrder
	Norm  NormSpec
	Mixer MixerSpec
	Cross bool // a cross attention of the mixer's sizes follows the mixer

	MoE    bool
	Dense  FFNSpec // where not MoE
	Router RouterSpec
	Expert FFNSpec
	Shared SharedSpec
}

// Refs yields every tensor that the spec needs, layer by layer. A tied head is
// not among them.
func (s *Spec) Refs() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for _, n := range s.outerNeeds() {
			if !yield(Ref{Role: n.Role}) {
				return
			}
		}
		for layer := range s.Layers {
			if !s.layerRefs(layer, yield) {
				return
			}
		}
	}
}

func (s *Spec) layerRefs(layer int, yield func(Ref) bool) bool {
	for _, n := range s.layerNeeds(layer) {
		if !yield(Ref{Role: n.Role, Layer: layer}) {
			return false
		}
	}
	if !s.Layer[layer].MoE {
		return true
	}
	experts := s.expertNeeds(layer)
	for expert := range s.Experts {
		for _, n := range experts {
			if !yield(Ref{n.Role, layer, expert}) {
				return false
			}
		}
	}
	return true
}

// Has reports whether the spec has that tensor; a tied head counts.
func (s *Spec) Has(ref Ref) bool { return s.Shape(ref) != nil }

// Shape returns the tensor's shape, row-major; nil if the spec does not have it.
// Matrices are (outputs, inputs): y = W·x.
func (s *Spec) Shape(ref Ref) []int {
	for _, n := range s.needsOf(ref) {
		if n.Role == ref.Role {
			return n.Shape
		}
	}
	return nil
}

// needsOf returns the tensors among which ref would be.
func (s *Spec) needsOf(ref Ref) []need {
	switch {
	case ref.Role == Head:
		return []need{s.headNeed()}
	case !ref.Role.IsLayer():
		return s.outerNeeds()
	case ref.Layer < 0 || ref.Layer >= s.Layers:
		return nil
	case !ref.Role.IsExpert():
		return s.layerNeeds(ref.Layer)
	case !s.Layer[ref.Layer].MoE || ref.Expert < 0 || ref.Expert >= s.Experts:
		return nil
	}
	return s.expertNeeds(ref.Layer)
}

// CastRope rounds rotary frequencies to bf16, as they are in a model that was cast
// to it as a whole, buffers and all. No model is served so: it is for comparing
// with outputs of such a model.
func (s *Spec) CastRope() {
	for i := range s.Layer {
		s.Layer[i].Mixer.Rope.Cast = true
	}
}

// MoELayers counts the layers with experts.
func (s *Spec) MoELayers() int {
	n := 0
	for _, layer := range s.Layer {
		if layer.MoE {
			n++
		}
	}
	return n
}

// LongAfter returns the length beyond which a sequence is computed with other rotary
// factors, all of its positions anew; 0: never.
func (s *Spec) LongAfter() int {
	for i := range s.Layer {
		if r := &s.Layer[i].Mixer.Rope; r.Kind != NoRope && r.Scaling.Kind == LongRope {
			return r.Scaling.Original
		}
	}
	return 0
}

// Parameters counts weights. Active are those that one token uses: all but the
// experts it is not routed to.
type Parameters struct {
	Total  int64
	Active int64
	// ActiveInLayers are those of Active that lie in layers.
	ActiveInLayers int64
	// ActiveWithoutInput is Active less the input embeddings, of which a token reads
	// one row: all but one that is the head, too. An encoder before a decoder has
	// one of its own.
	ActiveWithoutInput int64
}

// Parameters counts the spec's weights.
func (s *Spec) Parameters() Parameters {
	p := Parameters{Total: elements(s.outerNeeds())}
	outer := p.Total
	for layer := range s.Layers {
		fixed, expert := elements(s.layerNeeds(layer)), s.expertParameters(layer)
		p.Total += fixed + int64(s.Experts)*expert
		p.ActiveInLayers += fixed + int64(s.TopK)*expert
	}
	p.Active = outer + p.ActiveInLayers
	p.ActiveWithoutInput = p.Active
	embedding := int64(s.Vocab) * int64(s.Hidden)
	if !s.TiedEmbeddings {
		p.ActiveWithoutInput -= embedding
	}
	if s.Task() == Answer {
		p.ActiveWithoutInput -= embedding
	}
	return p
}

// ExpertParameters counts the weights of one expert, which all layers with
// experts have alike.
func (s *Spec) ExpertParameters() int64 {
	for layer := range s.Layer {
		if s.Layer[layer].MoE {
			return s.expertParameters(layer)
		}
	}
	return 0
}

func (s *Spec) expertParameters(layer int) int64 {
	if !s.Layer[layer].MoE {
		return 0
	}
	return elements(s.expertNeeds(layer))
}
