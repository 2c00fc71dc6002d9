package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync"
	"unsafe"
	"weak"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// SyntheticSeed is the seed of models for which nobody wants another one.
const SyntheticSeed = 1

// Synthetic returns a model with random bf16 weights that are made when asked for. All who
// hold a tensor have the same memory, and when nobody does it is made anew, with the
// same numbers. It is for measuring, and has no tokenizer. The names are those of shapes, such as "tiny", and
// with :N behind them such models with N layers only.
func Synthetic(name string, seed uint64) (*Model, error) {
	config, err := shapeConfig(name)
	if err != nil {
		return nil, err
	}
	p, err := parse(config, nil)
	if err != nil {
		return nil, fmt.Errorf("synthetic model %s: %w", name, err)
	}
	family := *p.family
	family.tensors, family.prefix = shapeTensors(), ""
	m := &Model{Name: CleanName(name), Spec: p.spec, Generation: p.generation, family: &family}
	src := &synthetic{seed: seed, spec: &m.Spec, parts: map[string]syntheticPart{}, held: map[string]weak.Pointer[byte]{}}
	for ref := range m.Spec.Refs() {
		src.add(ref, m.stored(ref))
	}
	m.source = src
	if err := m.validate(); err != nil { // counts the bytes
		return nil, fmt.Errorf("synthetic model %s: %w", name, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "switchyard synthetic 2 %s %d", name, seed))
	m.Hash = hex.EncodeToString(sum[:])
	return m, nil
}

// synthetic makes tensors from the seed and their names.
type synthetic struct {
	seed  uint64
	spec  *Spec
	parts map[string]syntheticPart

	mu   sync.Mutex
	held map[string]weak.Pointer[byte] // tensors' first bytes, from when they were made
}

// syntheticPart is a tensor that is stored of a role's: all of it, or the codes or
// scales of a quantised one.
type syntheticPart struct {
	ref   Ref
	at    TensorRef
	index int // of the stored tensor among the reference's
	kind  syntheticKind
}

type syntheticKind uint8

const (
	syntheticNumbers syntheticKind = iota
	syntheticCodes                 // of MXFP4
	syntheticScales
)

func (s *synthetic) add(ref Ref, at TensorRef) {
	for i, name := range at.names() {
		kind := syntheticNumbers
		if at.Dequant == MXFP4 {
			kind = syntheticCodes + syntheticKind(i)
		}
		s.parts[name] = syntheticPart{ref, at, i, kind}
	}
}

func (s *synthetic) stat(name string) (Tensor, bool) {
	p, ok := s.parts[name]
	if !ok {
		return Tensor{}, false
	}
	shapes := p.at.shapes(s.spec.Shape(p.ref), s.spec.Experts) // as the spec is now
	return Tensor{Name: name, DType: p.at.dtypes()[p.index][0], Shape: shapes[p.index]}, true
}

func (s *synthetic) tensor(name string) (Tensor, bool) {
	t, ok := s.stat(name)
	if !ok {
		return Tensor{}, false
	}
	size := t.DType.Size() * t.Len()
	if t.Data = s.holding(name, size); t.Data == nil {
		t.Data = make([]byte, size)
		s.fill(t)
		t.Data = s.share(name, t.Data)
	}
	return t, true
}

// holding returns a tensor that somebody holds; nil if nobody does.
func (s *synthetic) holding(name string, size int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.held[name].Value()
	if first == nil {
		return nil
	}
	return unsafe.Slice(first, size)
}

// share keeps a tensor for as long as somebody holds it; it is the one that was made first.
func (s *synthetic) share(name string, data []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.held[name].Value(); first != nil {
		return unsafe.Slice(first, len(data))
	}
	s.held[name] = weak.Make(unsafe.SliceData(data))
	return data
}

func (s *synthetic) fill(t Tensor) {
	name := t.Name
	switch p := s.parts[name]; {
	case p.kind == syntheticCodes:
		fillRandom(t.Data, s.stream(name))
	case p.kind == syntheticScales:
		fillScales(t.Data, s.spec.deviation(p.ref))
	case len(t.Shape) > 1:
		s.random(t).Fill(t.Data)
	case strings.HasSuffix(p.ref.Role.String(), "Norm"): // biases are zero
		for i := 0; i < len(t.Data); i += 2 {
			binary.LittleEndian.PutUint16(t.Data[i:], 0x3f80)
		}
	}
}

func (s *synthetic) random(t Tensor) Random {
	columns := t.Shape[len(t.Shape)-1]
	return Random{s.stream(t.Name), s.spec.deviation(s.parts[t.Name].ref), t.Len() / columns, columns}
}

func (s *synthetic) file(string) ([]byte, bool) { return nil, false }
func (s *synthetic) close() error               { return nil }

func (s *synthetic) stream(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64() ^ s.seed*splitmix.Gamma
}

// deviation returns the standard deviation of a tensor's weights: 1/√inputs keeps a
// row's scale, and the matrices that write to the residual stream are smaller
// by √(2·layers), as in GPT-2, so that it does not grow with depth.
func (s *Spec) deviation(ref Ref) float64 {
	inputs := s.Shape(ref)[1]
	scale := 1 / math.Sqrt(float64(inputs))
	switch ref.Role {
	case O, ExpertDown, SharedDown, DenseDown:
		scale /= math.Sqrt(2 * float64(s.Layers))
	case Embed:
		scale = 0.02
	}
	return scale
}

func fillRandom(data []byte, stream uint64) {
	for ; len(data) >= 8; data = data[8:] {
		binary.LittleEndian.PutUint64(data, splitmix.Next(&stream))
	}
	for i := range data {
		data[i] = byte(splitmix.Next(&stream))
	}
}

// fillScales fills data with the exponent (biased, of E8M0) that gives random codes of
// MXFP4 about this deviation; without a scale theirs is 2.9.
func fillScales(data []byte, deviation float64) {
	const codes = 2.9
	exponent := byte(127 + math.Round(math.Log2(deviation/codes)))
	for i := range data {
		data[i] = exponent
	}
}
