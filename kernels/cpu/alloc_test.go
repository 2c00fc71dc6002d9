package cpu

import "testing"

// A step calls the kernels thousands of times.
func TestNoAllocations(t *testing.T) {
	const rows, n, k, c = 5, 100, 64, 40
	w := PackF32(floats(1, n*k), n, k)
	x, y := floats(2, rows*k), make([]float32, rows*n)
	h := Heads{KV: 5, Group: 2, Dim: c}
	kv := pages(floats(3, 5*40*c), floats(4, 5*40*c), h.KV, c)
	q, out, scratch := floats(5, 10*c), make([]float32, 10*c), make([]float32, AttendScratch(h, 40))
	l := Latent{5, 40, 8, KVF32}
	lines, latentScratch := latentPages(l, floats(6, 40*l.Width())), make([]float32, LatentScratch(l, 40))
	lc := Latent{5, 32, 16, KVInt8}
	lineCodes, codesScratch := latentPages(lc, floats(6, 40*lc.Width())), make([]float32, LatentScratch(lc, 40))
	lq, latent := floats(7, 5*l.Width()), make([]float32, 5*l.Rank)
	raw, row := make([]byte, 2*len(x)), make([]float32, len(x))
	coded := Heads{KV: 5, Group: 2, Dim: 32}
	codes := pagesIn(KVInt8, floats(8, 5*40*32), floats(9, 5*40*32), coded.KV, coded.Dim)
	rowsScratch := make([]float32, AttendRowsScratch(coded, 1, 40))
	for name, f := range map[string]func(){
		"matmul":  func() { MatMul(y, n, x, k, rows, w, 0, w.Panels()) },
		"attend":  func() { attend(out, q, h, kv, 3, 40, 0.2, scratch) },
		"codes":   func() { AttendKept(KVInt8, nil, out, q, coded, codes, 3, 40, 0.2, nil, scratch) },
		"rows":    func() { AttendRows(KVInt8, out, 0, q, 0, 1, coded, codes, 40, 0.2, nil, rowsScratch) },
		"store":   func() { KVInt8.Store(codes[0], codes[0][KVInt8.Words(32):], 5, q[:32], q[32:64]) },
		"latent":  func() { AttendLatent(latent, lq, l, lines, 40, 0.2, latentScratch) },
		"lines":   func() { AttendLatent(latent, lq, lc, lineCodes, 40, 0.2, codesScratch) },
		"norm":    func() { RMSNorm(row, x, x, 1e-5) },
		"layer":   func() { LayerNorm(row, x, x, x, 1e-5); GELU(row, x); GELUTanh(row, x) },
		"swiglu":  func() { SwiGLU(row, x, x); ClampedSwiGLU(row, x, x, 7) },
		"softmax": func() { Softmax(row[:33]) },
		"bf16":    func() { ToBF16(raw, x); RoundBF16(row) },
	} {
		eachVariant(t, func(t *testing.T) {
			if got := testing.AllocsPerRun(20, f); got > 0 {
				t.Errorf("%s: %v allocations", name, got)
			}
		})
	}
}
