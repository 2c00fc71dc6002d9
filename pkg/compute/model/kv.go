package model

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// KVCache is in what keys and values are kept, as an operator chooses it.
type KVCache string

// The kinds.
const (
	KVAuto KVCache = "auto" // float32, and bf16 where a precision rounds rows; as is the zero value
	KVF32  KVCache = "f32"
	KVBF16 KVCache = "bf16" // rounded to bf16
	KVInt8 KVCache = "int8" // a code of 8 bits for each number, and a scale for each key and each value: cpu.StoreKVCodes
)

var kvFormats = map[KVCache]cpu.KVFormat{KVF32: cpu.KVF32, KVBF16: cpu.KVBF16, KVInt8: cpu.KVInt8}

// of returns what is kept with a precision where everything follows the choice.
func (c KVCache) of(p Precision) KVCache {
	switch {
	case c.Chosen():
		return c
	case p.roundsRows():
		return KVBF16
	}
	return KVF32
}

// Chosen reports whether it is a choice, and not KVAuto.
func (c KVCache) Chosen() bool { return c != "" && c != KVAuto }

// Rounds reports whether keys and values are others than those of float32, by this choice and not by a
// precision's.
func (c KVCache) Rounds() bool { return c == KVBF16 || c == KVInt8 }

// Class returns what a precision, with the kernels that compute, and a choice for keys and values add to the numeric
// class: nothing for weights as they are stored and float32.
func Class(p Precision, c KVCache) (class string) {
	if p.Own() {
		class = "-" + string(p)
	}
	if p == W16A16 {
		class += cpu.PairsClass()
	}
	switch c.of(p) {
	case KVBF16:
		class += "-kv16"
	case KVInt8:
		class += "-kv8"
	}
	return class
}

// KeepIn sets in what keys and values are kept: after In, and before anything is loaded. With KVAuto it
// changes nothing. It refuses a choice that a layer's cannot be kept in.
func (m *Model) KeepIn(c KVCache) error {
	if err := m.Spec.KeepIn(c); err != nil {
		return fmt.Errorf("model %s: %w", m.Name, err)
	}
	latent := slices.ContainsFunc(m.Spec.Layer, func(l LayerSpec) bool { return l.Mixer.Kind == MLA })
	if latent && c == KVBF16 && m.Precision.roundsRows() { // KVAuto has the same class, and latents in float32
		return fmt.Errorf("model %s: with rows that are rounded (%s) latents are kept in float32 or int8: give %s or %s", m.Name, m.Precision, KVInt8, KVAuto)
	}
	m.KVCache = c
	return nil
}

// KeepIn is the model's.
func (s *Spec) KeepIn(c KVCache) error {
	if !c.Chosen() {
		return nil
	}
	format, known := kvFormats[c]
	if !known {
		return fmt.Errorf("keys and values in %q: there are %s, %s, %s and %s", c, KVAuto, KVF32, KVBF16, KVInt8)
	}
	for l := range s.Layer {
		if err := s.Layer[l].Mixer.keeps(format); err != nil {
			return fmt.Errorf("layer %d: %w: give %s", l, err, KVAuto)
		}
	}
	for l := range s.Layer {
		s.Layer[l].Mixer.Cache = format
	}
	return nil
}

// keeps explains why the mixer's keys and values cannot be kept so, or returns nil.
func (m *MixerSpec) keeps(f cpu.KVFormat) error {
	switch {
	case f == cpu.KVF32:
		return nil
	case m.Kind == MLA:
		if l := (cpu.Latent{Rank: m.Latent.KVRank, Rope: m.Latent.RopeDim, Format: f}); !l.Keeps() {
			return fmt.Errorf("its latents have %d dimensions and %d rotated ones; multiples of %d and 4 can be kept so", l.Rank, l.Rope, cpu.PanelWidth)
		}
		return nil
	case !f.Takes(m.HeadDim) || !f.Takes(m.ValueDim):
		return fmt.Errorf("its heads have %d and %d dimensions, and a multiple of %d can be kept so", m.HeadDim, m.ValueDim, cpu.PanelWidth)
	}
	return nil
}
