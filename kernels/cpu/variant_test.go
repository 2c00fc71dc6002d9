package cpu

import (
	"strings"
	"testing"
)

func env(pairs ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestChoose(t *testing.T) {
	best := generic
	for v := range variantNames {
		if supported(v) {
			best = v
		}
	}
	if v, err := choose(env()); v != best || err != nil {
		t.Errorf("chose %d, %v; the best is %d", v, err, best)
	}
	if v, err := choose(env("SWITCHYARD_KERNEL", "generic")); v != generic || err != nil {
		t.Errorf("chose %d, %v", v, err)
	}
	if v, err := choose(env("SWITCHYARD_NO_AVX512", "1", "SWITCHYARD_NO_AVX2", "1")); v != generic || err != nil {
		t.Errorf("chose %d, %v", v, err)
	}
	has := "this processor has " + strings.Join(available(env()), ", ")
	if _, err := choose(env("SWITCHYARD_KERNEL", "sse9")); err == nil || !strings.HasSuffix(err.Error(), has) {
		t.Errorf("an unknown name gives %v, and %s", err, has)
	}
	none := env("SWITCHYARD_KERNEL", "avx512bf16", "SWITCHYARD_NO_AVX512", "1", "SWITCHYARD_NO_AVX2", "1")
	if _, err := choose(none); err == nil || !strings.Contains(err.Error(), ": choose generic, or leave") {
		t.Errorf("a fleet's choice that this one lacks gives %v", err)
	}
	if err := Check(); err != nil {
		t.Error(err)
	}
	if _, err := choose(env("SWITCHYARD_KERNEL", "avx2", "SWITCHYARD_NO_AVX2", "1")); err == nil {
		t.Error("a variant that is switched off is accepted")
	}
}
