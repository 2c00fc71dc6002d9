package cpu

import (
	"bytes"
	"testing"
)

// A whole panel's codes of four bits are packed by AVX-512 where there is one, and as further packs them.
func TestPackNibbles(t *testing.T) {
	if active < avx512 {
		t.Skip("no AVX-512 here")
	}
	const size, bits = 64, 0x88
	src := randomBytes(3, PanelWidth*size, 256)
	rows := make([][]byte, PanelWidth)
	for i := range rows {
		rows[i] = src[i*size:][:size]
	}
	got, want := make([]byte, len(src)), make([]byte, len(src))
	if !packNibbles(got, rows, bits) {
		t.Fatal("it packed nothing")
	}
	if packHalfBytes(want, rows, 0, bits, func([]byte) {}); !bytes.Equal(got, want) {
		t.Error("it packed other codes")
	}
	if rows[1], rows[2] = rows[2], rows[1]; packNibbles(got, rows, bits) {
		t.Error("it packed rows that lie at other distances")
	}
}
