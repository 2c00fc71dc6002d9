package model

import (
	"iter"
	"slices"
)

// Spec is what a checkpoint's config says, in one vocabulary for all families.
type Spec struct {
	Family       string // config.json's model_type
	Layers       int
	Hidden       int // d
	Heads        int // query heads, a multiple of KVHeads
	KVHeads      int
	HeadDim      int
	Vocab        int
	MaxPositions int

	NormEps        float32 // RMSNorm
	RopeTheta      float64 // rotary embedding over the whole head, halves rotated
	TiedEmbeddings bool    // the head is the embedding
	QKVBias        bool

	Layer []LayerSpec // one a layer

	Experts     int  // of each MoE layer
	TopK        int  // experts of a token
	ExpertWidth int  // w
	SharedWidth int  // of the shared expert, 0 without one; its output is scaled by sigmoid(SharedRouter · x)
	NormTopK    bool // gate weights: softmax over all experts, top-k, then divided by their sum if NormTopK

	BOS int      // -1 without one
	EOS []uint32 // any of them ends a text; may be empty
}

// LayerSpec is what differs between layers.
type LayerSpec struct {
	MoE        bool
	DenseWidth int // of the dense feed-forward network; 0 where MoE
	Window     int // a position sees itself and the Window-1 before it; 0 sees all
}

// Refs yields every tensor that the spec needs, layer by layer. A tied head is
// not among them.
func (s *Spec) Refs() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for _, role := range s.outerRoles() {
			if !yield(Ref{Role: role}) {
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

func (s *Spec) outerRoles() []Role {
	if s.TiedEmbeddings {
		return []Role{Embed, FinalNorm}
	}
	return []Role{Embed, FinalNorm, Head}
}

func (s *Spec) layerRefs(layer int, yield func(Ref) bool) bool {
	for _, role := range s.layerRoles(layer) {
		if !yield(Ref{Role: role, Layer: layer}) {
			return false
		}
	}
	if !s.Layer[layer].MoE {
		return true
	}
	for expert := range s.Experts {
		for _, role := range ExpertRoles {
			if !yield(Ref{role, layer, expert}) {
				return false
			}
		}
	}
	return true
}

// layerRoles lists a layer's tensors, experts aside.
func (s *Spec) layerRoles(layer int) []Role {
	roles := []Role{InputNorm, PostNorm, Q, K, V, O}
	if s.QKVBias {
		roles = append(roles, QBias, KBias, VBias)
	}
	if !s.Layer[layer].MoE {
		return append(roles, DenseGate, DenseUp, DenseDown)
	}
	roles = append(roles, Router)
	if s.SharedWidth > 0 {
		roles = append(roles, SharedGate, SharedUp, SharedDown, SharedRouter)
	}
	return roles
}

// Has reports whether the spec has that tensor; a tied head counts.
func (s *Spec) Has(ref Ref) bool {
	if ref.Role == Head || ref.Role <= FinalNorm {
		return true
	}
	if ref.Layer < 0 || ref.Layer >= s.Layers {
		return false
	}
	if ref.Role.IsExpert() {
		return s.Layer[ref.Layer].MoE && ref.Expert >= 0 && ref.Expert < s.Experts
	}
	return slices.Contains(s.layerRoles(ref.Layer), ref.Role)
}

// Shape is the tensor's shape, row-major. Matrices are (outputs, inputs) as
// Hugging Face stores them: y = W·x.
func (s *Spec) Shape(ref Ref) []int {
	d, q, kv := s.Hidden, s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	switch ref.Role {
	case Embed, Head:
		return []int{s.Vocab, d}
	case Q:
		return []int{q, d}
	case K, V:
		return []int{kv, d}
	case O:
		return []int{d, q}
	case QBias:
		return []int{q}
	case KBias, VBias:
		return []int{kv}
	case Router:
		return []int{s.Experts, d}
	case SharedRouter:
		return []int{1, d}
	case DenseGate, DenseUp, SharedGate, SharedUp, ExpertGate, ExpertUp:
		return []int{s.width(ref), d}
	case DenseDown, SharedDown, ExpertDown:
		return []int{d, s.width(ref)}
	}
	return []int{d} // the norms
}

// width is the inner size of the feed-forward network that ref belongs to.
func (s *Spec) width(ref Ref) int {
	switch ref.Role {
	case DenseGate, DenseUp, DenseDown:
		return s.Layer[ref.Layer].DenseWidth
	case SharedGate, SharedUp, SharedDown:
		return s.SharedWidth
	}
	return s.ExpertWidth
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

// Parameters counts weights. Active are those that one token uses: all but the
// experts it is not routed to.
type Parameters struct {
	Total  int64
	Active int64
	// ActiveWithoutInput is Active less the input embedding, of which a token
	// reads one row; the same as Active where the head is that matrix.
	ActiveWithoutInput int64
}

// Parameters counts the spec's weights.
func (s *Spec) Parameters() Parameters {
	var fixed int64
	for _, role := range s.outerRoles() {
		fixed += s.elements(Ref{Role: role})
	}
	for layer := range s.Layers {
		for _, role := range s.layerRoles(layer) {
			fixed += s.elements(Ref{Role: role, Layer: layer})
		}
	}
	layers := int64(s.MoELayers())
	p := Parameters{
		Total:  fixed + layers*int64(s.Experts)*s.ExpertParameters(),
		Active: fixed + layers*int64(s.TopK)*s.ExpertParameters(),
	}
	p.ActiveWithoutInput = p.Active
	if !s.TiedEmbeddings {
		p.ActiveWithoutInput -= s.elements(Ref{Role: Embed})
	}
	return p
}

// ExpertParameters counts the weights of one expert: three (F, D) matrices.
func (s *Spec) ExpertParameters() int64 {
	return 3 * int64(s.ExpertWidth) * int64(s.Hidden)
}

func (s *Spec) elements(ref Ref) int64 {
	n := int64(1)
	for _, dim := range s.Shape(ref) {
		n *= int64(dim)
	}
	return n
}
