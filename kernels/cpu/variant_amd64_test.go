package cpu

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What the kernel of the system lists must be found: a variant that is missing
// by mistake would pass every test unseen.
func TestNoVariantIsMissing(t *testing.T) {
	if strings.Contains(os.Getenv("GODEBUG"), "cpu.") {
		t.Skip("GODEBUG hides features of the processor")
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("no list of the processor's features")
	}
	flags := strings.Fields(string(text))
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(flags, n) })
	}
	if has("avx2", "fma", "f16c") && !supported(avx2) {
		t.Error("avx2 is missing")
	}
	if has("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq") && !supported(avx512) {
		t.Error("avx512 is missing")
	}
	if supported(avx512) && has("avx512_vnni") != supported(avx512vnni) {
		t.Errorf("avx512vnni is said to be supported: %v", supported(avx512vnni))
	}
	if supported(avx512vnni) && has("avx512_bf16") != supported(avx512bf16) {
		t.Errorf("avx512bf16 is said to be supported: %v", supported(avx512bf16))
	}
	if supported(avx512bf16) && has("amx_tile", "amx_int8", "amx_bf16") != supported(amxTiles) {
		t.Errorf("amx is said to be supported: %v", supported(amxTiles))
	}
}
