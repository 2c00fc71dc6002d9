package cpu

import "fmt"

// MatMul computes the output panels [p0, p1) of dst (rows, N) = x (rows, K) · wᵀ
// on the calling goroutine. ldDst and ldX are the rows' strides. Only columns
// below N of those panels are written.
func MatMul(dst []float32, ldDst int, x []float32, ldX int, rows int, w *Matrix, p0, p1 int) {
	if rows == 0 || p0 >= p1 {
		return
	}
	checkMatMul(dst, ldDst, x, ldX, rows, w, p0, p1)
	if w.rounds {
		matMulRounding(dst, ldDst, x, ldX, rows, w, p0, p1)
		return
	}
	if w.stack != nil {
		w.eachPart(p0, p1, func(m *Matrix, first, from, to int) {
			MatMul(dst[min(first, len(dst)):], ldDst, x, ldX, rows, m, from, to)
		})
		return
	}
	whole := min(p1, w.N/PanelWidth)
	if p0 < whole {
		matMulPanels(dst[p0*PanelWidth:], ldDst, x, ldX, rows, w, p0, whole)
	}
	if max(p0, whole) < p1 {
		matMulLast(dst, ldDst, x, ldX, rows, w)
	}
}

func checkMatMul(dst []float32, ldDst int, x []float32, ldX, rows int, w *Matrix, p0, p1 int) {
	if p0 < 0 || p1 > w.Panels() || ldDst < w.N || ldX < w.K || rows < 0 ||
		len(dst) < (rows-1)*ldDst+min(w.N, p1*PanelWidth) || len(x) < (rows-1)*ldX+w.K {
		panic(fmt.Sprintf("cpu.MatMul: dst %d (stride %d), x %d (stride %d), %d rows, weights (%d, %d), panels [%d, %d)",
			len(dst), ldDst, len(x), ldX, rows, w.N, w.K, p0, p1))
	}
}

// lastRows rows of a padded panel are computed at a time.
const lastRows = 8

// matMulLast computes the last, padded panel next to dst, and copies the columns that exist.
func matMulLast(dst []float32, ldDst int, x []float32, ldX, rows int, w *Matrix) {
	var full [lastRows * PanelWidth]float32
	p := w.Panels() - 1
	width := w.N - p*PanelWidth
	for r := 0; r < rows; r += lastRows {
		n := min(lastRows, rows-r)
		matMulPanels(full[:], PanelWidth, x[r*ldX:], ldX, n, w, p, p+1)
		for i := range n {
			copy(dst[(r+i)*ldDst+p*PanelWidth:][:width], full[i*PanelWidth:])
		}
	}
}

func matMulPanels(dst []float32, ldDst int, x []float32, ldX, rows int, w *Matrix, p0, p1 int) {
	size := w.K * PanelWidth
	t := tile{ldDst: ldDst, ldX: ldX, rows: rows, k: w.K, step: PanelWidth, panels: p1 - p0, panelStride: size}
	switch {
	case w.bf != nil:
		tileBF16(dst, x, w.bf[p0*size:p1*size], t)
	case w.coded != nil:
		tileCoded(dst, x, w, p0, t)
	case w.codes != nil:
		matMulPacked(dst, x, w, p0, t)
	default:
		tileF32(dst, x, w.f32[p0*size:p1*size], t)
	}
}

// matMulPacked is matMulPanels from panel p0 on for weights that kernels decode.
func matMulPacked(dst, x []float32, w *Matrix, p0 int, t tile) {
	if w.exps != nil {
		t.panelStride, t.scaleStride = w.mxPanel(), w.K/MXBlock*PanelWidth
		tileMXFP4(dst, x, w.codes[p0*t.panelStride:], w.exps[p0*t.scaleStride:], t)
		return
	}
	if w.steps != nil {
		t.panelStride, t.scaleStride = len(w.codes)/w.Panels(), w.K/QGroup*PanelWidth
		tileQ(dst, x, w.codes[p0*t.panelStride:], w.steps[p0*t.scaleStride:], w.quantised(), t)
		return
	}
	t.scaleStride = FP8Scales(w.K) * PanelWidth
	tileFP8(dst, x, w.codes[p0*t.panelStride:], w.scales[p0*t.scaleStride:], t)
}
