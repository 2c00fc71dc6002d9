//go:build emulate

package emulate

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

// latent is a layer that keeps latents, and one sequence.
type latent struct {
	*device
	parts, most       int // P, and the most elements of a value
	heads, rank, rope int
}

func (l *latent) width() int { return l.rank + l.rope }
func (l *latent) w() int     { return up(max(l.width(), l.most), 64) }

const latentAt = 32 // where the layer begins in a page

// store puts lines into pages that hold what is no number elsewhere.
func (l *latent) store(lines []float32) (pages []uint64) {
	n := len(lines) / l.width()
	for range up(n, 32) / 32 {
		pages = append(pages, Address(room[uint16](l.device, latentAt/2+32*l.parts*l.w())))
	}
	pages = copied(l.device, pages)
	position := room[uint32](l.device, n)
	for i := range position {
		position[i] = uint32(i)
	}
	l.run(fmt.Sprintf("latent_store_p%d", l.parts), line(n), line(128), 0,
		lines, position, copied(l.device, make([]uint32, n)), pages, latentAt, l.width(), l.width(), l.w())
	return pages
}

// attend is out (R, H, rank) of queries (R, H, W), row i seeing end[i] positions.
func (l *latent) attend(q []float32, pages []uint64, end []uint32) []float32 {
	rows, splits := len(end), 2
	start, pagesAt := copied(l.device, make([]uint32, rows)), copied(l.device, make([]uint32, rows))
	part := room[float32](l.device, rows*l.heads*splits*(l.most+2))
	out := room[float32](l.device, rows*l.heads*l.rank)
	l.run(fmt.Sprintf("attend_latent_p%d_r%d", l.parts, l.most), [3]uint32{uint32(splits), uint32(up(l.heads, 16) / 16), uint32(rows)},
		line(128), 160*l.parts*l.w()+2048,
		part, q, start, end, pagesAt, pages, latentAt, l.heads, l.width(), l.w(), l.heads*l.width(), splits, float32(scale))
	l.run(fmt.Sprintf("attend_merge_w%d", l.most), [3]uint32{uint32(l.heads), uint32(rows), 1}, line(l.most), 0,
		out, part, start, end, nil, l.heads, l.rank, l.heads*l.rank, splits)
	return out
}

// prefill is the same by tiles of at most so many rows.
func (l *latent) prefill(q []float32, pages []uint64, end []uint32, most int) []float32 {
	rows := len(end)
	var tiles []uint32
	for from := 0; from < rows; from += most {
		tiles = append(tiles, 0, uint32(from), uint32(min(most, rows-from)), 0)
	}
	tiles = copied(l.device, append(tiles, 0, 0, 0, 0)) // and one that is not used
	start, pagesAt := copied(l.device, make([]uint32, rows)), copied(l.device, make([]uint32, rows))
	out := room[float32](l.device, rows*l.heads*l.rank)
	l.run(fmt.Sprintf("attend_latent_tile_p%d_r%d", l.parts, l.most), [3]uint32{uint32(up(most*l.heads, 32) / 32), uint32(len(tiles) / 4), 1},
		line(256), 192*l.parts*l.w()+4096,
		out, q, start, end, pagesAt, pages, tiles, latentAt, l.heads, l.width(), l.w(), l.rank, l.heads*l.width(), l.heads*l.rank, float32(scale))
	return out
}

// Rows within one split and over two give what the reference does, and the same bits alone and in
// tiles of any size.
func TestLatent(t *testing.T) {
	for _, l := range []latent{
		{parts: 1, most: 64, heads: 4, rank: 32, rope: 8},
		{parts: 2, most: 64, heads: 20, rank: 60, rope: 16},
		{parts: 1, most: 512, heads: 16, rank: 512, rope: 64},
		{parts: 2, most: 512, heads: 3, rank: 200, rope: 64},
	} {
		t.Run(fmt.Sprintf("p%d rank %d", l.parts, l.rank), func(t *testing.T) {
			l.device = open(t)
			testLatent(&l)
		})
	}
}

func testLatent(l *latent) {
	end := copied(l.device, []uint32{1, 40, 255, 256, 261})
	lines, q := copied(l.device, l.noise(261*l.width())), copied(l.device, l.noise(len(end)*l.heads*l.width()))
	for i := range q {
		q[i] /= 4 // scores that leave more than one position a weight
	}
	if l.parts == 1 {
		copy(lines, rounded(lines))
		copy(q, rounded(q))
	}
	pages := l.store(lines)
	got := l.attend(q, pages, end)
	for _, most := range []int{1, 2, 5} {
		same(l.t, fmt.Sprintf("prefill by %d rows", most), l.prefill(q, pages, end, most), got)
	}
	for i, n := range end {
		row := q[i*l.heads*l.width():][:l.heads*l.width()]
		out := got[i*l.heads*l.rank:][:l.heads*l.rank]
		near(l.t, fmt.Sprintf("row %d", i), out, ref.AttendLatent(row, lines[:int(n)*l.width()], l.heads, l.rank, l.width(), scale),
			[]float64{0, 1e-2, 5e-5}[l.parts])
		same(l.t, fmt.Sprintf("row %d alone", i), l.attend(row, pages, end[i:i+1]), out)
	}
}
