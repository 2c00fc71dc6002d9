//go:build emulate

package emulate

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/ref"
)

// variant is how a block of the matrix kernels is cut; see ../src/README.md.
type variant struct{ tokens, features, threads int }

var variants = []variant{{8, 64, 128}, {32, 64, 128}, {128, 128, 256}}

func (v variant) shared(of format, parts int) int {
	if of == tiled {
		stages := map[int]int{8: 8, 32: 4, 128: 5 - parts}[v.tokens]
		return stages * (v.features*128 + parts*(v.tokens+8)*128 + 16)
	}
	stages := 4
	if v.tokens == 128 {
		stages = 3
	}
	return stages * (v.features*of.pieceBytes() + parts*v.tokens*128)
}

func (v variant) name(kernel string, parts int) string {
	return fmt.Sprintf("%s_p%d_t%d", kernel, parts, v.tokens)
}

// grid is the blocks for so many of a matrix's rows. By wgmma blocks take turns.
func (v variant) grid(of format, features, tiles int) [3]uint32 {
	all := up(features, v.features) / v.features * tiles
	if of == tiled {
		all = min(all, 3)
	}
	return line(all)
}

// tiles cuts groups of so many rows, one after the other.
func (v variant) tiles(d *device, rows []int) []uint32 {
	var all []uint32
	at := 0
	for g, n := range rows {
		for from := 0; from < n; from += v.tokens {
			all = append(all, uint32(g), uint32(at+from), uint32(min(n-from, v.tokens)), 0)
		}
		at += n
	}
	return copied(d, append(all, 0, 0, 0, 0)) // and one that is not used
}

// planes are rows gathered by source, if there is one.
func (d *device) planes(of format, parts int, x []float32, source []uint32, scale []float32, rows, k int) []uint16 {
	p, kernel := room[uint16](d, parts*(rows+1)*up(k, 64)), "rows_split"
	if of == tiled {
		kernel = "rows_pieces"
	}
	d.run(fmt.Sprintf("%s_p%d", kernel, parts), line(rows), line(128), 0,
		p, x, source, scale, k, up(k, 64), k, rows+1)
	return p
}

// expert is one's weights, as the reference and as kernels have them.
type expert struct {
	in, inBias, down, downBias []float32
	table                      [4]uint64 // in and its bias, down and its bias
}

func (d *device) expert(of format, gated bool, f, hidden int) expert {
	wide := f
	if gated {
		wide = 2 * f
	}
	var e expert
	var in, down uint64
	if e.in, in = d.matrix(of, wide, hidden); of == tiled && gated {
		in = d.tiles(e.in, wide, hidden, true)
	}
	e.down, down = d.matrix(of, hidden, f)
	e.inBias, e.downBias = copied(d, d.noise(wide)), copied(d, d.noise(hidden))
	e.table = [4]uint64{in, Address(e.inBias), down, Address(e.downBias)}
	return e
}

// want is the reference's output of rows x.
func (e *expert) want(x []float32, rows, f, hidden, activation int) []float32 {
	wide := len(e.inBias)
	inner := ref.MatMul(x, e.in, rows, wide, hidden)
	var act []float32
	for r := range rows {
		row := inner[r*wide : (r+1)*wide]
		addTo(row, e.inBias)
		act = append(act, activate(activation, row, f)...)
	}
	y := ref.MatMul(act, e.down, rows, hidden, f)
	for r := range rows {
		addTo(y[r*hidden:(r+1)*hidden], e.downBias)
	}
	return y
}

func addTo(x, bias []float32) {
	for i, b := range bias {
		x[i] += b
	}
}

const limit = 1.5

func activate(kind int, row []float32, f int) []float32 {
	switch kind {
	case 0:
		return ref.SwiGLU(row[:f], row[f:])
	case 1:
		return ref.ClampedSwiGLU(row[:f], row[f:], limit)
	case 2:
		return ref.GELU(row)
	}
	return ref.GELUTanh(row)
}

// network is some experts of one layer.
type network struct {
	experts             []expert
	format              format
	f, hidden, kind     int
	inGroups, outGroups []uint64
}

func (d *device) network(of format, experts, f, hidden, kind int) *network {
	n := &network{format: of, f: f, hidden: hidden, kind: kind}
	for range experts {
		e := d.expert(of, kind < 2, f, hidden)
		n.experts = append(n.experts, e)
		n.inGroups, n.outGroups = append(n.inGroups, e.table[:2]...), append(n.outGroups, e.table[2:]...)
	}
	n.inGroups, n.outGroups = copied(d, n.inGroups), copied(d, n.outGroups)
	return n
}

// compute is the three launches; row i of a group's is entry dest[i], times weight[i].
func (d *device) compute(n *network, v variant, parts int, x []float32, source, dest []uint32, weight []float32, rows []int) []float32 {
	all, kp, fp := len(dest), up(n.hidden, 64), up(n.f, 64)
	planes := d.planes(n.format, parts, x, source, nil, all, n.hidden)
	act := room[uint16](d, parts*(all+2)*fp)
	tiles := v.tiles(d, rows)
	count, kernel, features := len(tiles)/4, "experts_in", 2*fp
	if n.kind >= 2 {
		kernel, features = "experts_up", fp
	}
	d.run(v.name(kernel+n.format.infix(), parts), v.grid(n.format, features, count), line(v.threads), v.shared(n.format, parts),
		act, planes, tiles, n.inGroups, n.f, fp, kp, all+2, all+1, count, n.kind, float32(limit))
	out := room[float32](d, all*n.hidden)
	d.run(v.name("project"+n.format.infix(), parts), v.grid(n.format, n.hidden, count), line(v.threads), v.shared(n.format, parts),
		out, act, tiles, n.outGroups, dest, weight, n.hidden, fp, all+2, n.hidden, count, false)
	return out
}

// Three experts with different numbers of rows, one of them none, give what the
// reference does, whatever the activation and the cut.
func TestExperts(t *testing.T) {
	for _, of := range []format{plain, tiled} {
		for kind := range 4 {
			for _, v := range of.variants() {
				for parts := 1; parts <= 2; parts++ {
					t.Run(fmt.Sprintf("activation %d %s", kind, v.name(of.infix(), parts)), func(t *testing.T) {
						d := open(t)
						testExperts(d, d.network(of, 3, 40, 72, kind), v, parts, []int{3, 0, 10}) // neither fills its pieces
					})
				}
			}
		}
	}
}

func testExperts(d *device, n *network, v variant, parts int, rows []int) {
	all, f, hidden, kind := 0, n.f, n.hidden, n.kind
	for _, count := range rows {
		all += count
	}
	x := copied(d, rounded(d.noise(all*hidden)))
	weight := copied(d, d.noise(all))
	source, dest := make([]uint32, all), make([]uint32, all)
	for i := range all {
		source[i], dest[i] = uint32(all-1-i), uint32((i+5)%all)
	}
	got := d.compute(n, v, parts, x, copied(d, source), copied(d, dest), weight, rows)
	want, at := make([]float32, all*hidden), 0
	for g, count := range rows {
		for i := at; i < at+count; i++ {
			y := n.experts[g].want(x[int(source[i])*hidden:][:hidden], 1, f, hidden, kind)
			for j := range y {
				want[int(dest[i])*hidden+j] = y[j] * weight[i]
			}
		}
		at += count
	}
	near(d.t, v.name("experts", parts), got, want, []float64{0, 5e-3, 1e-5}[parts])
}

// A row's bits are the same alone, among 2 to 64 rows, and whatever the cut.
func TestExpertsBatch(t *testing.T) {
	for parts := 1; parts <= 2; parts++ {
		d := open(t)
		testBatch(d, d.network(plain, 1, 40, 64, 0), parts, 1)
		testBatch(d, d.network(tiled, 1, 40, 64, 0), parts, 3)
	}
}

func testBatch(d *device, n *network, parts, step int) {
	const most = 64
	x := copied(d, d.noise(most*n.hidden))
	dest := make([]uint32, most)
	for i := range dest {
		dest[i] = uint32(i)
	}
	alone := make([]float32, 0, most*n.hidden)
	for i := range most {
		alone = append(alone, d.compute(n, n.format.variants()[0], parts, x[i*n.hidden:], nil, copied(d, dest[:1]), nil, []int{1})...)
	}
	for rows := 1; rows <= most; rows += step {
		for _, v := range n.format.variants() {
			if v.tokens == 128 && rows%9 != 1 { // slow here
				continue
			}
			got := d.compute(n, v, parts, x, nil, copied(d, dest[:rows]), nil, []int{rows})
			same(d.t, fmt.Sprintf("%s of %d rows", v.name(n.format.infix(), parts), rows), got, alone[:len(got)])
		}
	}
}

// By wgmma groups of 1 to 130 rows, that begin anywhere, with more matrices' rows and columns than a block has.
func TestGroupsByWgmma(t *testing.T) {
	for _, v := range tiled.variants() {
		for parts := 1; parts <= 2; parts++ {
			for kind := 0; kind < 4; kind += 2 {
				d := open(t)
				testExperts(d, d.network(tiled, 6, 200, 330, kind), v, parts, []int{1, 130, 0, 7, 9, 33})
			}
		}
	}
}

// A row has the same bits alone and among 512, that begin at any row.
func TestAmongManyByWgmma(t *testing.T) {
	const before, many, hidden = 3, 512, 64
	for parts := 1; parts <= 2; parts++ {
		d := open(t)
		n := d.network(tiled, 2, 40, hidden, 0)
		x, dest := copied(d, d.noise((before+many)*hidden)), make([]uint32, before+many)
		for i := range dest {
			dest[i] = uint32(i)
		}
		dest = copied(d, dest)
		var first []float32
		for _, v := range tiled.variants() {
			got := d.compute(n, v, parts, x, nil, dest, nil, []int{before, many})
			if first == nil {
				first = got
			}
			same(t, v.name("many", parts), got, first)
		}
		for _, i := range []int{0, 1, 7, 127, 128, 300, many - 1} {
			alone := d.compute(n, tiled.variants()[0], parts, x[(before+i)*hidden:], nil, dest[:1], nil, []int{0, 1})
			same(t, fmt.Sprintf("row %d alone", i), alone, first[(before+i)*hidden:][:hidden])
		}
	}
}

// And the bits are mma.sync's here, where both add up 16 products exactly.
func TestWgmmaIsMma(t *testing.T) {
	const n, k, rows = 72, 200, 11
	a, b := open(t), open(t)
	for parts := 1; parts <= 2; parts++ {
		same(t, fmt.Sprintf("%d parts", parts), projected(b, tiled, parts, n, k, rows), projected(a, plain, parts, n, k, rows))
	}
}

// projected is a product of the same random numbers on every fresh device.
func projected(d *device, of format, parts, n, k, rows int) []float32 {
	_, at := d.matrix(of, n, k)
	x, v := copied(d, d.noise(rows*k)), of.variants()[0]
	tiles, out := v.tiles(d, []int{rows}), room[float32](d, rows*n)
	d.run(v.name("project"+of.infix(), parts), v.grid(of, n, len(tiles)/4), line(v.threads), v.shared(of, parts),
		out, d.planes(of, parts, x, nil, nil, rows, k), tiles, copied(d, []uint64{at, 0}), nil, nil, n, up(k, 64), rows+1, n, len(tiles)/4, false)
	return out
}

// Any matrix: columns of K that fill pieces or not, rows that fill blocks or not, more tiles than a band
// has, sums on top of what is there.
func TestProject(t *testing.T) {
	for _, of := range []format{plain, tiled} {
		for _, v := range of.variants() {
			for parts := 1; parts <= 2; parts++ {
				for _, k := range []int{64, 200} {
					testProject(open(t), of, v, parts, k)
				}
			}
		}
	}
}

func testProject(d *device, of format, v variant, parts, k int) {
	const n, rows = 136, 70
	w, at := d.matrix(of, n, k)
	x := copied(d, d.noise(rows*k))
	if parts == 1 {
		copy(x, rounded(x))
	}
	groups := copied(d, []uint64{at, 0})
	tiles, before := v.tiles(d, []int{rows}), d.noise(rows*n)
	out := copied(d, before)
	count := len(tiles) / 4
	d.run(v.name("project"+of.infix(), parts), v.grid(of, n, count), line(v.threads), v.shared(of, parts),
		out, d.planes(of, parts, x, nil, nil, rows, k), tiles, groups, nil, nil, n, up(k, 64), rows+1, n, count, true)
	want := ref.MatMul(x, w, rows, n, k)
	addTo(want, before)
	near(d.t, fmt.Sprintf("%s with K of %d", v.name("project"+of.infix(), parts), k), out, want, []float64{0, 1e-6, 1e-5}[parts])
}

// Planes are rows gathered, scaled, cut into parts that add up, and filled up with zeros.
func TestRowsSplit(t *testing.T) {
	d := open(t)
	const rows, k, kp = 5, 70, 128
	x := copied(d, d.noise(3*k))
	source, scale := copied(d, []uint32{2, 0, 1, 1, 0}), copied(d, []float32{1, 2, 3, 4, 5})
	for parts := 1; parts <= 2; parts++ {
		planes := d.planes(plain, parts, x, source, scale, rows, k)
		sum, want := make([]float32, rows*kp), make([]float32, rows*kp)
		for i := range sum {
			for p := parts - 1; p >= 0; p-- {
				sum[i] += float(planes[(p*(rows+1)*kp)+i])
			}
			if i%kp < k {
				want[i] = x[int(source[i/kp])*k+i%kp] * scale[i/kp]
			}
		}
		near(t, fmt.Sprintf("%d parts", parts), sum, want, []float64{0, 1.0 / (1 << 8), 1.0 / (1 << 16)}[parts])
		if parts == 1 {
			same(t, "one part", sum, rounded(want))
		}
	}
	infinite := copied(d, slices.Repeat([]float32{float32(math.Inf(-1))}, k))
	if p := d.planes(plain, 2, infinite, nil, nil, 1, k); p[0] != 0xff80 || p[2*kp] != 0 {
		t.Errorf("parts of minus infinity: %x, %x", p[0], p[2*kp])
	}
}
