package attention

import (
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
)

// Memory that holds less than a sequence may have is told with both numbers and the cure.
func TestShortOfRoom(t *testing.T) {
	layer := kvcache.LayerShape{Heads: 8, KeyDim: 128, ValueDim: 128}
	mixtral := kvcache.Shape{Layers: slices.Repeat([]kvcache.LayerShape{layer}, 32)} // of 32,768 positions
	for _, tc := range []struct {
		name    string
		bytes   int64
		longest int
		onGPU   bool
		want    string // empty: nothing is told
	}{
		{"64 MiB of Mixtral", 64 << 20, 32768, false, "[positions 256 context 32768 needed_bytes 8589934592 cure give --kv-memory 8192MiB, or --max-model-len 256]"},
		{"as much as it says", 8192 << 20, 32768, false, ""},
		{"a page less", 8191 << 20, 32768, false, "[positions 32736 context 32768 needed_bytes 8589934592 cure give --kv-memory 8192MiB, or --max-model-len 32736]"},
		{"a shorter context", 64 << 20, 256, false, ""},
		{"a GPU", 64 << 20, 257, true, "[positions 256 context 257 needed_bytes 75497472 cure give --gpu-memory more, or --max-model-len 256]"},
	} {
		kv, err := kvcache.NewPool(mixtral, tc.bytes)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if short := shortOfRoom(kv, tc.longest, tc.onGPU); short != nil {
			got = fmt.Sprint(short)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
