//go:build emulate

package emulate

import (
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

// attention is a layer's heads, and sequences in its pages.
type attention struct {
	*device
	parts, w, c, kv, share int
	layerAt                int
	pages                  []uint64
	pagesAt                []uint32 // of each row
	start, end             []uint32
	k, v                   [][]float32 // of each sequence: (P, kv, c), as the cache holds them
	sequence               []int       // of each row
	q                      []float32
	sinks                  []float32
}

const scale = 0.3

func (a *attention) heads() int { return a.kv * a.share }

// store makes a sequence of so many positions. Pages lie in no order, and hold what is no number
// where nothing is stored.
func (a *attention) store(positions int) (pagesAt uint32) {
	at, width := len(a.pages), a.kv*a.c
	k, v := copied(a.device, a.noise(positions*width)), copied(a.device, a.noise(positions*width))
	if a.parts == 1 {
		copy(k, rounded(k))
		copy(v, rounded(v))
	}
	a.k, a.v = append(a.k, k), append(a.v, v)
	for range up(positions, 32) / 32 {
		page := room[uint16](a.device, a.layerAt/2+64*a.parts*a.w*a.kv)
		a.pages = append(a.pages, Address(page))
	}
	position, pagesOf := make([]uint32, positions), make([]uint32, positions)
	for i := range position {
		position[i], pagesOf[i] = uint32(i), uint32(at)
	}
	a.run(fmt.Sprintf("kv_store_p%d", a.parts), [3]uint32{uint32(a.kv), uint32(positions), 1}, line(32), 0,
		k, v, copied(a.device, position), copied(a.device, pagesOf), copied(a.device, a.pages), a.layerAt, width, a.c, a.w)
	return uint32(at)
}

// see adds a row of a sequence that sees [start, end).
func (a *attention) see(sequence int, pagesAt uint32, start, end int) {
	a.start, a.end = append(a.start, uint32(start)), append(a.end, uint32(end))
	a.pagesAt, a.sequence = append(a.pagesAt, pagesAt), append(a.sequence, sequence)
}

// ask makes the rows' queries.
func (a *attention) ask() {
	a.q = copied(a.device, a.noise(len(a.start)*a.heads()*a.c))
	a.pages, a.pagesAt = copied(a.device, a.pages), copied(a.device, a.pagesAt)
	a.start, a.end = copied(a.device, a.start), copied(a.device, a.end)
}

// want is the reference's output.
func (a *attention) want() []float32 {
	var out []float32
	for row := range a.start {
		keys, values := a.k[a.sequence[row]], a.v[a.sequence[row]]
		for kv := range a.kv {
			var k, v []float32
			for p := int(a.start[row]); p < int(a.end[row]); p++ {
				at := (p*a.kv + kv) * a.c
				k, v = append(k, keys[at:at+a.c]...), append(v, values[at:at+a.c]...)
			}
			q := a.q[(row*a.heads()+kv*a.share)*a.c:][:a.share*a.c]
			if a.sinks == nil {
				out = append(out, ref.Attend(q, k, v, a.share, a.c, scale)...)
			} else {
				out = append(out, ref.AttendSinks(q, k, v, a.sinks[kv*a.share:], a.share, a.c, scale)...)
			}
		}
	}
	return out
}

// wide heads are computed by groups of four warps, of which decode has one and prefill two.
func (a *attention) wide() bool { return a.w == 256 }

func (a *attention) threads(groups int) int {
	if a.wide() {
		return 128 * groups
	}
	return []int{0, 32, 128}[groups]
}

func (a *attention) shared(groups int) int {
	if a.wide() {
		return 256*a.parts*a.w + groups*(32*a.parts*a.w+2048)
	}
	return 256*a.parts*a.w + (groups-1)*256*a.w
}

// decode computes rows by splits, and joins these.
func (a *attention) decode() []float32 {
	rows, splits, width := len(a.start), 0, a.heads()*a.c
	for _, end := range a.end {
		splits = max(splits, (int(end)+255)/256)
	}
	part, out := room[float32](a.device, rows*a.heads()*splits*(a.w+2)), room[float32](a.device, rows*width)
	a.run(fmt.Sprintf("attend_split_p%d_w%d", a.parts, a.w),
		[3]uint32{uint32(splits), uint32(a.kv * up(a.share, 16) / 16), uint32(rows)}, line(a.threads(1)), a.shared(1),
		part, a.q, a.start, a.end, a.pagesAt, a.pages, a.layerAt, a.heads(), a.kv, a.c, width, splits, float32(scale))
	a.run(fmt.Sprintf("attend_merge_w%d", a.w), [3]uint32{uint32(a.heads()), uint32(rows), 1}, line(a.w), 0,
		out, part, a.start, a.end, a.sinks, a.heads(), a.c, width, splits)
	return out
}

// prefill computes rows in tiles of at most so many.
func (a *attention) prefill(most int) []float32 {
	var tiles []uint32
	for row := 0; row < len(a.start); {
		end := row + 1
		for end < len(a.start) && end-row < most && a.sequence[end] == a.sequence[row] {
			end++
		}
		tiles = append(tiles, 0, uint32(row), uint32(end-row), 0)
		row = end
	}
	tiles = copied(a.device, append(tiles, 0, 0, 0, 0))
	width, blocks := a.heads()*a.c, 1
	if a.wide() {
		blocks = up(most*a.share, 32) / 32
	}
	out := room[float32](a.device, len(a.start)*width)
	a.run(fmt.Sprintf("attend_tile_p%d_w%d", a.parts, a.w), [3]uint32{uint32(a.kv), uint32(len(tiles) / 4), uint32(blocks)},
		line(a.threads(2)), a.shared(2),
		out, a.q, a.start, a.end, a.pagesAt, a.pages, tiles, a.sinks, a.layerAt, a.heads(), a.kv, a.c, width, width, float32(scale))
	return out
}

// Rows of two sequences, some of which see all, some a window, some what is before and after them:
// decode gives what the reference does, and prefill decode's bits however rows are cut.
func TestAttention(t *testing.T) {
	for i, c := range []attention{
		{parts: 1, w: 32, c: 24, kv: 2, share: 2},
		{parts: 2, w: 32, c: 16, kv: 1, share: 1},
		{parts: 1, w: 64, c: 64, kv: 1, share: 8},
		{parts: 2, w: 64, c: 40, kv: 1, share: 20},
		{parts: 1, w: 128, c: 128, kv: 1, share: 4},
		{parts: 2, w: 128, c: 72, kv: 2, share: 3},
		{parts: 1, w: 256, c: 256, kv: 1, share: 20},
		{parts: 2, w: 256, c: 192, kv: 2, share: 2},
	} {
		sinks := i%2 == 0
		t.Run(fmt.Sprintf("p%d w%d share %d sinks %v", c.parts, c.w, c.share, sinks), func(t *testing.T) {
			c.device = open(t)
			testAttention(&c, sinks)
		})
	}
}

func testAttention(a *attention, sinks bool) {
	a.layerAt = 64
	if sinks {
		a.sinks = copied(a.device, a.noise(a.heads()))
	}
	short, long := a.store(37), a.store(301)
	for p := 33; p < 37; p++ {
		a.see(0, short, 0, p+1)
	}
	for p := 250; p < 260; p++ { // over the end of a split
		a.see(1, long, 0, p+1)
	}
	for p := 294; p < 300; p++ {
		a.see(1, long, p-41, p+1)
	}
	a.see(1, long, 0, 301)
	a.ask()
	if a.parts == 1 {
		copy(a.q, rounded(a.q))
	}
	got := a.decode()
	near(a.t, "decode", got, a.want(), []float64{0, 5e-3, 2e-5}[a.parts])
	most := max(1, 64/a.share)
	for _, rows := range []int{1, 3, most} {
		same(a.t, fmt.Sprintf("prefill by %d rows", rows), a.prefill(min(rows, most)), got)
	}
}
