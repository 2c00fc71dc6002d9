package amx

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Where Linux lists the instructions, they can be used; a missing permission would pass every test unseen.
func TestUsable(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("no list of the processor's features")
	}
	flags := strings.Fields(string(text))
	has := slices.Contains(flags, "amx_tile") && slices.Contains(flags, "amx_int8") && slices.Contains(flags, "amx_bf16")
	if Usable() != has {
		t.Errorf("usable: %v, and the processor has AMX: %v", Usable(), has)
	}
}
