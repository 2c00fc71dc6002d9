package cpu

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Heads that are shared out have the bits that they have together, and leave those of the others alone.
func TestAttendHeads(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			h := Heads{rapid.IntRange(1, 9).Draw(t, "kv"), rapid.IntRange(1, 4).Draw(t, "group"), PanelWidth * rapid.IntRange(1, 2).Draw(t, "dim")}
			end := rapid.IntRange(1, 80).Draw(t, "end")
			start, f := rapid.IntRange(0, end-1).Draw(t, "start"), formatFor(t, h.Dim)
			from := rapid.IntRange(0, h.KV).Draw(t, "from")
			to := rapid.IntRange(from, h.KV).Draw(t, "to")
			size, group := h.KV*end*h.Dim, h.Group*h.Dim
			all, q, sinks := pagesIn(f, floats(1, size), floats(2, size), h.KV, h.Dim), floats(3, h.KV*group), floats(4, h.KV*h.Group)
			want, got := make([]float32, len(q)), slices.Repeat([]float32{7}, len(q))
			scratch := make([]float32, AttendScratch(h, end))
			AttendKept(f, nil, want, q, h, all, start, end, 0.3, sinks, scratch)
			AttendHeads(f, got, q, h, from, to, all, start, end, 0.3, sinks, scratch)
			for i, v := range got {
				if inside := i >= from*group && i < to*group; inside && !sameBits(got[i:i+1], want[i:i+1]) || !inside && v != 7 {
					t.Fatalf("value %d of heads [%d, %d) is %v, together %v", i, from, to, v, want[i])
				}
			}
		})
	})
}
