package model

// need is a tensor that a part has, and its shape.
type need struct {
	Role  Role
	Shape []int
}

func elements(needs []need) int64 {
	sum := int64(0)
	for _, n := range needs {
		size := int64(1)
		for _, dim := range n.Shape {
			size *= int64(dim)
		}
		sum += size
	}
	return sum
}

// outerNeeds returns the tensors outside the layers, without a tied head.
func (s *Spec) outerNeeds() []need {
	needs := s.Embedding.needs(s, Embed)
	if s.EncoderLayers > 0 && s.EncoderLayers < s.Layers {
		needs = append(needs, s.Encoder.needs(s, EncoderEmbed)...)
	}
	needs = append(needs, s.FinalNorm.needs(FinalNorm, s.Hidden)...)
	if s.Head.Dense {
		d := s.Hidden
		needs = append(needs, need{HeadDense, []int{d, d}}, need{HeadDenseBias, []int{d}},
			need{HeadNorm, []int{d}}, need{HeadNormBias, []int{d}})
	}
	if !s.TiedEmbeddings {
		needs = append(needs, s.headNeed())
	}
	if s.Head.Bias {
		needs = append(needs, need{HeadBias, []int{s.Vocab}})
	}
	return needs
}

func (s *Spec) headNeed() need { return need{Head, []int{s.Vocab, s.Hidden}} }

// needs returns embedding's tensors; first is Embed or EncoderEmbed, whose
// companions follow it in the same order.
func (e *EmbeddingSpec) needs(s *Spec, first Role) []need {
	needs := []need{{first, []int{s.Vocab, s.Hidden}}}
	if e.Positions > 0 {
		needs = append(needs, need{first + EmbedPositions, []int{e.Positions, s.Hidden}})
	}
	if e.Types > 0 {
		needs = append(needs, need{first + EmbedTypes, []int{e.Types, s.Hidden}})
	}
	return append(needs, e.Norm.needs(first+EmbedNorm, s.Hidden)...)
}

// needs returns a norm's weight and bias, whose role follows the weight's.
func (n NormSpec) needs(weight Role, d int) []need {
	switch n.Kind {
	case RMSNorm:
		return []need{{weight, []int{d}}}
	case LayerNorm:
		return []need{{weight, []int{d}}, {weight + 1, []int{d}}}
	}
	return nil
}

func (s *Spec) layerNeeds(layer int) []need {
	l, d := &s.Layer[layer], s.Hidden
	needs := append(l.Norm.needs(InputNorm, d), l.Norm.needs(PostNorm, d)...)
	needs = append(needs, l.Mixer.needs(d)...)
	if l.Cross {
		needs = append(needs, l.Norm.needs(CrossNorm, d)...)
		needs = append(needs, l.Mixer.crossNeeds(d)...)
	}
	if !l.MoE {
		return append(needs, l.Dense.needs(DenseRoles, d)...)
	}
	needs = append(needs, l.Router.needs(s.Experts, d)...)
	return append(needs, l.Shared.needs(d)...)
}

func (s *Spec) expertNeeds(layer int) []need {
	return s.Layer[layer].Expert.needs(ExpertRoles, s.Hidden)
}

func (m *MixerSpec) needs(d int) []need {
	if m.Kind == MLA {
		return m.latentNeeds(d)
	}
	q, k, v := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim, m.KVHeads*m.ValueDim
	out := m.Heads * m.ValueDim
	needs := []need{{Q, []int{q, d}}, {K, []int{k, d}}, {V, []int{v, d}}, {O, []int{d, out}}}
	if m.QKVBias {
		needs = append(needs, need{QBias, []int{q}}, need{KBias, []int{k}}, need{VBias, []int{v}})
	}
	if m.OBias {
		needs = append(needs, need{OBias, []int{d}})
	}
	switch m.QKNorm {
	case QKNormHead:
		needs = append(needs, need{QNorm, []int{m.HeadDim}}, need{KNorm, []int{m.HeadDim}})
	case QKNormWhole:
		needs = append(needs, need{QNorm, []int{q}}, need{KNorm, []int{k}})
	}
	if m.Sinks {
		needs = append(needs, need{Sinks, []int{m.Heads}})
	}
	return needs
}

func (m *MixerSpec) latentNeeds(d int) []need {
	l, q := m.Latent, m.Heads*m.HeadDim
	needs := []need{{Q, []int{q, d}}}
	if l.QRank > 0 {
		needs = []need{{QDown, []int{l.QRank, d}}, {QDownNorm, []int{l.QRank}}, {QUp, []int{q, l.QRank}}}
	}
	return append(needs,
		need{KVDown, []int{l.KVRank + l.RopeDim, d}}, need{KVDownNorm, []int{l.KVRank}},
		need{KVUp, []int{m.Heads * (l.NopeDim + m.ValueDim), l.KVRank}}, need{O, []int{d, m.Heads * m.ValueDim}})
}

// crossNeeds returns those of a cross attention of the mixer's sizes.
func (m *MixerSpec) crossNeeds(d int) []need {
	q, k, v := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim, m.KVHeads*m.ValueDim
	needs := []need{{CrossQ, []int{q, d}}, {CrossK, []int{k, d}}, {CrossV, []int{v, d}}, {CrossO, []int{d, m.Heads * m.ValueDim}}}
	if m.QKVBias {
		needs = append(needs, need{CrossQBias, []int{q}}, need{CrossKBias, []int{k}}, need{CrossVBias, []int{v}})
	}
	if m.OBias {
		needs = append(needs, need{CrossOBias, []int{d}})
	}
	return needs
}

func (r *RouterSpec) needs(experts, d int) []need {
	needs := []need{{Router, []int{experts, d}}}
	if r.Bias {
		needs = append(needs, need{RouterBias, []int{experts}})
	}
	if r.Correction {
		needs = append(needs, need{RouterCorrection, []int{experts}})
	}
	return needs
}

func (f *FFNSpec) needs(r FFNRoles, d int) []need {
	if f.Width == 0 {
		return nil
	}
	needs := []need{{r.Up, []int{f.Width, d}}, {r.Down, []int{d, f.Width}}}
	if f.Bias {
		needs = append(needs, need{r.UpBias, []int{f.Width}}, need{r.DownBias, []int{d}})
	}
	if f.Activation.Gated() {
		needs = append(needs, need{r.Gate, []int{f.Width, d}})
		if f.Bias {
			needs = append(needs, need{r.GateBias, []int{f.Width}})
		}
	}
	return needs
}

func (s *SharedSpec) needs(d int) []need {
	needs := s.FFNSpec.needs(SharedRoles, d)
	if s.Width > 0 && s.Gated {
		needs = append(needs, need{SharedRouter, []int{1, d}})
	}
	return needs
}
