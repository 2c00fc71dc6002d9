package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// syntheticConfigs are the shapes that Synthetic knows.
var syntheticConfigs = map[string]string{
	"mixtral-1b": `{"model_type": "mixtral", "num_hidden_layers": 8, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4,
		"vocab_size": 32000, "max_position_embeddings": 32768, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 4096,
		"bos_token_id": 1, "eos_token_id": 2}`,
	"tiny": `{"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
		"vocab_size": 320, "max_position_embeddings": 4096, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 96,
		"bos_token_id": 1, "eos_token_id": 2}`,
}

// Synthetic is a model with random bf16 weights that are made when asked for:
// nothing is stored, each call of Tensor makes the same tensor anew. It is for
// measuring, and has no tokenizer. The names are "mixtral-1b" (1.6 G weights)
// and "tiny".
func Synthetic(name string, seed uint64) (*Model, error) {
	config, ok := syntheticConfigs[name]
	if !ok {
		known := slices.Sorted(maps.Keys(syntheticConfigs))
		return nil, fmt.Errorf("no synthetic model is called %q; there are %s", name, strings.Join(known, ", "))
	}
	p, err := parse([]byte(config), nil)
	if err != nil {
		return nil, fmt.Errorf("synthetic model %s: %w", name, err)
	}
	m := &Model{Name: CleanName(name), Spec: p.spec, Generation: p.generation, family: p.family}
	src := &synthetic{seed: seed, refs: map[string]Ref{}, spec: &m.Spec}
	for ref := range m.Spec.Refs() {
		src.refs[m.stored(ref).Name] = ref
	}
	m.Bytes = 2 * m.Spec.Parameters().Total
	m.source = src
	sum := sha256.Sum256(fmt.Appendf(nil, "switchyard synthetic 1 %s %d", name, seed))
	m.Hash = hex.EncodeToString(sum[:])
	return m, nil
}

// synthetic makes tensors from the seed and their names.
type synthetic struct {
	seed uint64
	refs map[string]Ref
	spec *Spec
}

// stat describes a tensor without making it.
func (s *synthetic) stat(name string) (Tensor, bool) {
	ref, ok := s.refs[name]
	if !ok {
		return Tensor{}, false
	}
	return Tensor{Name: name, DType: safetensors.BF16, Shape: s.spec.Shape(ref)}, true
}

func (s *synthetic) tensor(name string) (Tensor, bool) {
	t, ok := s.stat(name)
	if !ok {
		return Tensor{}, false
	}
	t.Data = make([]byte, 2*t.Len())
	ref := s.refs[name]
	if len(t.Shape) == 1 { // norms
		fillOnes(t.Data)
		return t, true
	}
	fillGaussian(t.Data, s.stream(name), s.spec.deviation(ref))
	return t, true
}

func (s *synthetic) file(string) ([]byte, bool) { return nil, false }
func (s *synthetic) close() error               { return nil }

// stream keys a tensor's numbers by seed and name.
func (s *synthetic) stream(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64() ^ s.seed*splitmix.Gamma
}

// deviation is the standard deviation of a tensor's weights: 1/√inputs keeps a
// row's scale, and the matrices that write to the residual stream are smaller
// by √(2·layers), as in GPT-2, so that it does not grow with depth.
func (s *Spec) deviation(ref Ref) float64 {
	inputs := s.Shape(ref)[1]
	scale := 1 / math.Sqrt(float64(inputs))
	switch ref.Role {
	case O, ExpertDown:
		scale /= math.Sqrt(2 * float64(s.Layers))
	case Embed:
		scale = 0.02
	}
	return scale
}

func fillOnes(data []byte) {
	for i := 0; i < len(data); i += 2 {
		binary.LittleEndian.PutUint16(data[i:], 0x3f80)
	}
}

// gaussTable is a power of two so that twelve random bits choose an entry; it
// stays in the first-level cache.
const gaussTable = 4096

// quantiles are the middle of gaussTable equal slices of the normal
// distribution.
var quantiles = sync.OnceValue(func() *[gaussTable]float64 {
	var q [gaussTable]float64
	for i := range q {
		p := (float64(i) + 0.5) / gaussTable
		q[i] = math.Sqrt2 * math.Erfinv(2*p-1)
	}
	return &q
})

// gaussian is the quantiles times a deviation, as bf16.
func gaussian(deviation float64) (table [gaussTable]uint16) {
	var x [gaussTable]float32
	for i, q := range quantiles() {
		x[i] = float32(q * deviation)
	}
	var raw [2 * gaussTable]byte
	cpu.ToBF16(raw[:], x[:])
	for i := range table {
		table[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return table
}

// fillGaussian fills data with bf16 normal numbers, four of each 64-bit word of
// a counter-based generator (splitmix64). len(data) is even.
func fillGaussian(data []byte, stream uint64, deviation float64) {
	table := gaussian(deviation)
	for ; len(data) >= 8; data = data[8:] {
		r := splitmix.Next(&stream)
		lo := uint64(table[r&4095]) | uint64(table[r>>12&4095])<<16
		hi := uint64(table[r>>24&4095])<<32 | uint64(table[r>>36&4095])<<48
		binary.LittleEndian.PutUint64(data, lo|hi)
	}
	for ; len(data) >= 2; data = data[2:] {
		binary.LittleEndian.PutUint16(data, table[splitmix.Next(&stream)&4095])
	}
}
