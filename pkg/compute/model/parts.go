package model

import (
	"reflect"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// The parts that a layer is made of, as data. Package forward has a type that
// computes each kind.

// NormKind is how a row is normalised.
type NormKind uint8

// The kinds of norms.
const (
	NoNorm    NormKind = iota
	RMSNorm            // weight · x / sqrt(mean(x²) + eps)
	LayerNorm          // weight · (x - mean) / sqrt(var + eps) + bias
)

// NormSpec is a norm.
type NormSpec struct {
	Kind NormKind
	Eps  float32
}

// NormOrder says where a layer's norms are.
type NormOrder uint8

// The orders.
const (
	NormBefore NormOrder = iota // x + f(norm(x))
	NormAfter                   // norm(x + f(x)), as BERT has it
)

// MixerKind is what mixes positions.
type MixerKind uint8

// The kinds of mixers.
const (
	GroupedQuery MixerKind = iota
	MLA                    // keys and values from a latent, which is what is cached
)

// MixerSpec is a layer's attention. A position sees itself and those before it,
// unless it is Bidirectional.
type MixerSpec struct {
	Kind     MixerKind
	Heads    int // query heads, a multiple of KVHeads
	KVHeads  int
	HeadDim  int // of queries and keys
	ValueDim int // of values

	QKVBias, OBias bool
	QKNorm         QKNormKind // on queries and keys, with the layer's eps
	Clip           float32    // queries, keys and values are cut off at ±Clip; 0: never
	Scale          float32    // of scores
	Sinks          bool       // a learned score a head takes part in the softmax and has no value
	Bidirectional  bool
	Rope           RopeSpec
	Temperature    TemperatureSpec
	Latent         LatentSpec   // of MLA
	Cache          cpu.KVFormat // how keys and values are kept: see Model.In and KeepIn
	Sight
}

// QKNormKind is a norm of queries and keys.
type QKNormKind uint8

// The kinds of norms of queries and keys.
const (
	NoQKNorm    QKNormKind = iota
	QKNormHead             // RMS norm of each head, before positions
	QKNormWhole            // RMS norm over all heads at once, before positions
	QKNormL2               // RMS norm of each head without a weight, after positions
)

// TemperatureSpec scales a query by its position p:
// 1 + Scale · log(1 + floor((p+1) / Floor)). Zero: not at all.
type TemperatureSpec struct{ Floor, Scale float64 }

// LatentSpec is the sizes of multi-head latent attention. A head's query and key
// have NopeDim dimensions without position, then RopeDim rotated ones, which
// all heads share in the key. HeadDim is their sum.
type LatentSpec struct {
	QRank            int // of the compressed query; 0: it is not compressed
	KVRank           int
	NopeDim, RopeDim int
	Eps              float32 // of the latents' RMS norms
}

// RopeKind says which elements of a head rotary embedding turns together.
type RopeKind uint8

// The kinds of rotary embedding.
const (
	NoRope      RopeKind = iota
	HalfSplit            // i and i + Dim/2
	Interleaved          // 2i and 2i + 1
)

// RopeSpec is a rotary embedding of the first Dim elements of a head (of MLA:
// of its rotated part).
type RopeSpec struct {
	Kind    RopeKind
	Dim     int
	Theta   float64
	Scaling RopeScaling
	Cast    bool // frequencies are rounded to bf16; see Spec.CastRope
}

// ScalingKind is how frequencies are stretched for long contexts.
type ScalingKind uint8

// The kinds of scaling.
const (
	NoScaling ScalingKind = iota
	Llama3
	LongRope
	Yarn
)

// RopeScaling has the numbers of its kind; the others are zero. Attention, where
// it is not zero, scales cosines and sines.
type RopeScaling struct {
	Kind      ScalingKind
	Factor    float64
	Original  int // max_position_embeddings before stretching
	Attention float64

	LowFactor, HighFactor float64 // Llama3

	ShortFactors, LongFactors []float64 // LongRope: a divisor per frequency
	LongAttention             float64   // LongRope: Attention past Original

	BetaFast, BetaSlow float64 // Yarn
	Truncate           bool    // Yarn: the correction's bounds are whole numbers
	Scores             float64 // Yarn: what DeepSeek scales scores by as well; 0: nothing
}

// RouterKind is how experts' weights come from a row's logits.
type RouterKind uint8

// The kinds of routers.
const (
	SoftmaxTopK RouterKind = iota // softmax over all, then the best k
	TopKSoftmax                   // the best k, then softmax over them
	SigmoidTopK                   // sigmoid of each, then the best k
	TopKSigmoid                   // the best k, then sigmoid of each
	SparseMixer                   // Phi-3.5-MoE's: each choice by a softmax over those near the best
)

// RouterSpec is a layer's choice of Spec.TopK experts.
type RouterSpec struct {
	Kind      RouterKind
	Normalise bool    // weights are divided by their sum
	Scale     float32 // then times Scale; 0 is 1
	// Groups > 1: experts are in so many equal groups, of which the best TopGroups
	// count. A group's score is its best expert's or, with GroupPairs, the sum of
	// its best two.
	Groups, TopGroups int
	GroupPairs        bool
	Bias              bool    // the logits have one
	Correction        bool    // a bias of the scores that is for choosing only
	Threshold         float32 // SparseMixer: how near to the best counts, twice the jitter
	OnInput           bool    // weights scale the experts' inputs rather than outputs
}

// Activation is what is between the two halves of a feed-forward network.
type Activation uint8

// The activations. Gated ones have a gate beside the up projection.
const (
	SwiGLU        Activation = iota // silu(gate) · up
	ClampedSwiGLU                   // gpt-oss: (up+1) · gate · sigmoid(1.702·gate), both cut off at FFNSpec.Limit
	GELU                            // x · Φ(x)
	GELUTanh                        // its approximation by tanh ("gelu_new")
)

// Gated reports whether there is a gate projection.
func (a Activation) Gated() bool { return a <= ClampedSwiGLU }

// FFNSpec is a feed-forward network; Width 0 stands for none.
type FFNSpec struct {
	Width      int // F
	Activation Activation
	Limit      float32 // of ClampedSwiGLU
	Bias       bool    // of every projection
}

// SharedSpec is an expert that all rows pass.
type SharedSpec struct {
	FFNSpec
	Gated bool // its output is scaled by sigmoid(SharedRouter · x)
}

// EmbeddingSpec is what rows begin with beside the tokens' embeddings.
type EmbeddingSpec struct {
	Positions int // learned positions; 0: none
	Types     int // token types; 0: none
	Norm      NormSpec
}

// HeadSpec is what makes logits of the last layer's rows.
type HeadSpec struct {
	Bias bool
	// Dense: a square matrix with bias, an activation and a layer norm with DenseEps
	// come first, as in BERT.
	Dense           bool
	DenseActivation Activation
	DenseEps        float32
}

// Equal reports whether two rotary embeddings are the same.
func (r *RopeSpec) Equal(o *RopeSpec) bool { return reflect.DeepEqual(r, o) }

// Sight says how far back a position sees.
type Sight struct {
	Window int // itself and the Window-1 before it; 0: all
	Chunk  int // its own chunk of so many positions; 0: all
}

// First returns the first position that a position sees.
func (s Sight) First(position int) int {
	first := 0
	if s.Window > 0 {
		first = max(0, position+1-s.Window)
	}
	if s.Chunk > 0 {
		first = max(first, position/s.Chunk*s.Chunk)
	}
	return first
}

// Most returns how many positions one sees at most; 0: any number.
func (s Sight) Most() int {
	if s.Window == 0 || s.Chunk == 0 {
		return max(s.Window, s.Chunk)
	}
	return min(s.Window, s.Chunk)
}
