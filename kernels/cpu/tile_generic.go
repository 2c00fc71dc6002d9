package cpu

import "math"

// A tile is the work of one call of a kernel: dst (rows, 32·panels) from
// x (rows, k) and panels of weights. Strides count elements.
type tile struct {
	ldDst, ldX  int
	rows, k     int
	step        int // from one k to the next within a panel
	panels      int
	panelStride int
	scaleStride int  // from one panel's scales to the next's, of packed weights
	add         bool // go on from dst's values rather than from 0
	ahead       int  // bytes from w to what will be read soon, for f32 kernels to ask for; 0 if unknown
}

// tileHeads computes a tile of t's rows for each of some heads, whose weights
// are stride apart, and whose rows of x and dst follow each other.
func tileHeads(dst, x, w []float32, heads, stride int, t tile) {
	for h := 0; h < heads; {
		h += tileF32Heads(dst[h*t.rows*t.ldDst:], x[h*t.rows*t.ldX:], w[h*stride:], heads-h, stride, t)
	}
}

// tileHeadsHalf is tileHeads with weights of bf16, two in a word; stride counts words.
func tileHeadsHalf(dst, x, w []float32, heads, stride int, t tile) {
	for h := 0; h < heads; {
		h += tileBF16Heads(dst[h*t.rows*t.ldDst:], x[h*t.rows*t.ldX:], w[h*stride:], heads-h, stride, t)
	}
}

// tileF32Generic computes a tile with float32 weights in plain Go.
func tileF32Generic(dst, x, w []float32, t tile) {
	for r := range t.rows {
		for p := range t.panels {
			out := dst[r*t.ldDst+p*PanelWidth:][:PanelWidth]
			var acc [PanelWidth]float32
			if t.add {
				copy(acc[:], out)
			}
			for i, v := range x[r*t.ldX:][:t.k] {
				fmaPanel(&acc, (*[PanelWidth]float32)(w[p*t.panelStride+i*t.step:]), v)
			}
			copy(out, acc[:])
		}
	}
}

// tileBF16Generic computes a tile with interleaved bf16 weights in plain Go.
func tileBF16Generic(dst, x []float32, w []uint16, t tile) {
	for r := range t.rows {
		for p := range t.panels {
			out := dst[r*t.ldDst+p*PanelWidth:][:PanelWidth]
			var acc [PanelWidth]float32
			if t.add {
				copy(acc[:], out)
			}
			for i, v := range x[r*t.ldX:][:t.k] {
				row := widen((*[PanelWidth]uint16)(w[p*t.panelStride+i*t.step:]))
				fmaPanel(&acc, &row, v)
			}
			copy(out, acc[:])
		}
	}
}

// decoded computes a tile with packed weights, which row decodes for input k of a panel.
func (t tile) decoded(dst, x []float32, row func(p, k int) [PanelWidth]float32) {
	t.begin(dst)
	for p := range t.panels {
		for k := range t.k {
			weights := row(p, k)
			t.step1(dst[p*PanelWidth:], x[k:], &weights)
		}
	}
}

// begin sets dst to zero unless the tile goes on from it.
func (t tile) begin(dst []float32) {
	for r := 0; r < t.rows && !t.add; r++ {
		clear(dst[r*t.ldDst:][:t.panels*PanelWidth])
	}
}

// step1 adds one input, the first of each row of x, to the chains of a panel.
func (t tile) step1(dst, x []float32, weights *[PanelWidth]float32) {
	for r := range t.rows {
		fmaPanel((*[PanelWidth]float32)(dst[r*t.ldDst:]), weights, x[r*t.ldX])
	}
}

func widen(w *[PanelWidth]uint16) (row [PanelWidth]float32) {
	for j := range PanelWidth / 2 {
		row[j] = math.Float32frombits(uint32(w[2*j]) << 16)
		row[j+PanelWidth/2] = math.Float32frombits(uint32(w[2*j+1]) << 16)
	}
	return row
}
