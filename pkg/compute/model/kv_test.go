package model

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// What is chosen for keys and values wins over what follows from a precision, and is refused for layers
// that cannot have it.
func TestKeepIn(t *testing.T) {
	grouped := func(dim int) MixerSpec { return MixerSpec{HeadDim: dim, ValueDim: dim} }
	latent := func(rank, rope int) MixerSpec {
		return MixerSpec{Kind: MLA, Latent: LatentSpec{KVRank: rank, RopeDim: rope}}
	}
	for _, tt := range []struct {
		name      string
		layers    []MixerSpec
		precision Precision
		kept      KVCache
		want      cpu.KVFormat // of the last layer
		refusal   string
	}{
		{"as it was", []MixerSpec{grouped(64)}, AsStored, KVAuto, cpu.KVF32, ""},
		{"nothing said", []MixerSpec{grouped(64)}, "", "", cpu.KVF32, ""},
		{"rounded rows", []MixerSpec{grouped(64)}, W8A8, KVAuto, cpu.KVBF16, ""},
		{"rounded rows where they can be", []MixerSpec{grouped(64), grouped(24)}, W8A8, KVAuto, cpu.KVF32, ""},
		{"float32 by choice", []MixerSpec{grouped(64)}, W8A8, KVF32, cpu.KVF32, ""},
		{"bf16", []MixerSpec{grouped(128)}, AsStored, KVBF16, cpu.KVBF16, ""},
		{"int8", []MixerSpec{grouped(128)}, W4A8, KVInt8, cpu.KVInt8, ""},
		{"a layer that 32 does not divide", []MixerSpec{grouped(64), grouped(24)}, "", KVInt8, cpu.KVF32, "layer 1: its heads have 24 and 24 dimensions"},
		{"values that 32 does not divide", []MixerSpec{{HeadDim: 32, ValueDim: 16}}, "", KVBF16, cpu.KVF32, "layer 0: its heads have 32 and 16"},
		{"latents", []MixerSpec{latent(512, 64)}, "", KVInt8, cpu.KVInt8, ""},
		{"latents where rows are rounded", []MixerSpec{latent(512, 64)}, W16A16, KVAuto, cpu.KVF32, ""},
		{"latents in codes where rows are rounded", []MixerSpec{latent(512, 64)}, W16A16, KVInt8, cpu.KVInt8, ""},
		{"latents in bf16 where auto has that class", []MixerSpec{latent(512, 64)}, W8A8, KVBF16, cpu.KVBF16, "latents are kept in float32 or int8"},
		{"latents that 32 does not divide", []MixerSpec{latent(48, 64)}, "", KVInt8, cpu.KVF32, "layer 0: its latents have 48 dimensions and 64 rotated ones"},
		{"latents in float32", []MixerSpec{latent(48, 64)}, "", KVF32, cpu.KVF32, ""},
		{"another kind", []MixerSpec{grouped(64)}, "", "fp8", cpu.KVF32, `keys and values in "fp8"`},
	} {
		m := &Model{Name: "m", Spec: Spec{Layer: make([]LayerSpec, len(tt.layers))}}
		for l := range tt.layers {
			m.Spec.Layer[l].Mixer = tt.layers[l]
		}
		m.In(tt.precision)
		err := m.KeepIn(tt.kept)
		if tt.refusal == "" && err != nil || tt.refusal != "" && (err == nil || !strings.Contains(err.Error(), tt.refusal)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.refusal)
		}
		if got := m.Spec.Layer[len(tt.layers)-1].Mixer.Cache; got != tt.want {
			t.Errorf("%s: format %d, want %d", tt.name, got, tt.want)
		}
	}
}
