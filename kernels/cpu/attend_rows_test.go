package cpu

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Rows together have the bits of each alone, whatever later positions hold.
func TestAttendRows(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			h := Heads{rapid.IntRange(1, 4).Draw(t, "kv"), rapid.IntRange(1, 6).Draw(t, "group"), PanelWidth * rapid.IntRange(1, 2).Draw(t, "dim")}
			end, rows := rapid.IntRange(1, 80).Draw(t, "end"), rapid.IntRange(1, 40).Draw(t, "rows")
			f, withSinks := formatFor(t, h.Dim), rapid.Bool().Draw(t, "sinks")
			size, width := h.KV*(end+rows-1)*h.Dim, h.KV*h.Group*h.Dim
			keys, values, sinks := floats(1, size), floats(2, size), []float32(nil)
			ldQ, ldOut := width+rapid.IntRange(0, 9).Draw(t, "ldQ"), width+rapid.IntRange(0, 9).Draw(t, "ldOut")
			q, out := floats(3, rows*ldQ), slices.Repeat([]float32{7}, rows*ldOut)
			if withSinks {
				sinks = floats(4, h.KV*h.Group)
			}
			all := pagesIn(f, keys, values, h.KV, h.Dim)
			scratch := slices.Repeat([]float32{float32(math.NaN())}, AttendRowsScratch(h, rows, end))
			AttendRows(f, out, ldOut, q, ldQ, rows, h, all, end, 0.3, sinks, scratch)
			want, alone := make([]float32, width), make([]float32, AttendScratch(h, end+rows-1))
			for r := range rows {
				AttendKept(f, nil, want, q[r*ldQ:], h, all, 0, end+r, 0.3, sinks, alone)
				if !sameBits(out[r*ldOut:][:width], want) {
					t.Fatalf("row %d of %d differs", r, rows)
				}
			}
		})
	})
}

func TestAttendsRows(t *testing.T) {
	for h, want := range map[Heads]int{{4, 2, 32}: 6, {1, 1, 64}: 12, {8, 8, 128}: 1, {2, 16, 32}: 1, {2, 2, 40}: 1, {2, 5, 96}: 2} {
		if got := h.AttendsRows(); got != want {
			t.Errorf("%+v: %d rows, want %d", h, got, want)
		}
	}
}
