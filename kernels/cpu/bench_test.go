package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/ceiling"
	"github.com/switchyard/switchyard/kernels/pool"
)

// The machine's ceilings, measured once in the run that uses them.
var (
	peakWide   = sync.OnceValue(ceiling.FMA)
	peakNarrow = sync.OnceValue(func() float64 { return ceiling.FMAWithin(8) })
	peakPairs  = sync.OnceValue(ceiling.Pairs)
	peakBytes  = sync.OnceValue(ceiling.Bytes)
	peakTiles  = sync.OnceValue(ceiling.TilePairs)
	peakRead   = sync.OnceValue(func() float64 { return ceiling.BandwidthOfPieces(512<<20, 16<<20) })
)

func peakFLOPS() float64 {
	if active == avx2 {
		return peakNarrow()
	}
	return peakWide()
}

// peakOf is the peak of what multiplies rows with a matrix.
func peakOf(m *Matrix) float64 {
	switch {
	case m.rounds && m.bf != nil && active == amxTiles:
		return peakTiles()
	case m.rounds && m.bf != nil && active >= avx512bf16:
		return peakPairs()
	case m.rounds && m.bf == nil && active >= avx512vnni:
		return peakBytes()
	}
	return peakFLOPS()
}

// reportBest adds what one of twenty calls stays within, which neighbours on the processor hardly change, and
// its shares of the ceilings.
func reportBest(b *testing.B, took []time.Duration, flops, bytes, peak float64) {
	slices.Sort(took)
	best := max(took[len(took)/20], 1)
	b.ReportMetric(float64(best), "best-ns")
	b.ReportMetric(flops/best.Seconds()/peak, "best-flops_ratio")
	b.ReportMetric(bytes/best.Seconds()/peakRead(), "best-bandwidth_ratio")
}

// report adds the rates of an operation, and their share of the ceilings.
func report(b *testing.B, flops, bytes float64, memory bool) {
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(flops*rate/1e9, "GFLOP/s")
	b.ReportMetric(flops*rate/peakFLOPS(), "flops_ratio")
	b.ReportMetric(bytes*rate/1e9, "GB/s")
	if memory {
		b.ReportMetric(bytes*rate/peakRead(), "bandwidth_ratio")
	}
}

// benchVariants runs f with every variant, leaving the slow one out with -short.
func benchVariants(b *testing.B, f func(b *testing.B)) {
	for _, name := range Available() {
		if name == "generic" && testing.Short() {
			continue
		}
		b.Run("variant="+name, func(b *testing.B) {
			restore, err := Use(name)
			if err != nil {
				b.Fatal(err)
			}
			defer restore()
			f(b)
		})
	}
}

func BenchmarkMatMul(b *testing.B) {
	for _, s := range []struct {
		n, k int
		rows []int
	}{
		{128, 256, []int{1, 2, 4, 8, 16, 32}},
		{256, 128, []int{1, 2, 4, 8, 16, 32}},
		{512, 256, []int{1, 4, 8, 32}},
		{8192, 256, []int{1, 8, 32}},
		{4096, 2048, []int{1, 3, 6, 8, 12, 24, 32, 128, 512}},
		{2048, 4096, []int{1, 8, 32, 128}},
		{32000, 2048, []int{1, 32}},
	} {
		w := PackBF16(make([]byte, 2*s.n*s.k), s.n, s.k)
		for _, rows := range s.rows {
			b.Run(fmt.Sprintf("n=%d/k=%d/rows=%d", s.n, s.k, rows), func(b *testing.B) {
				benchVariants(b, func(b *testing.B) { benchMatMul(b, rows, w) })
			})
		}
	}
}

// plainLimit is how many products plain Go is timed with: about a second's.
const plainLimit = 1 << 28

func benchMatMul(b *testing.B, rows int, ws ...*Matrix) {
	n, k := ws[0].N, ws[0].K
	if active == generic && rows*n*k > plainLimit {
		b.Skip("plain Go takes seconds for it")
	}
	x, y := floats(1, rows*k), make([]float32, rows*n)
	b.ReportAllocs()
	i := 0
	took := make([]time.Duration, 0, 1<<16)
	for b.Loop() {
		w := ws[i%len(ws)]
		start := time.Now()
		MatMul(y, n, x, k, rows, w, 0, w.Panels())
		if len(took) < cap(took) {
			took = append(took, time.Since(start))
		}
		i++
	}
	flops, bytes := float64(2*rows)*float64(n*k), float64(ws[0].Bytes())
	report(b, flops, bytes, len(ws) > 1 || ws[0].Bytes() > 100<<20)
	reportBest(b, took, flops, bytes, peakOf(ws[0]))
}

// memoryMatrices returns more weights than the caches hold.
func memoryMatrices(n, k int) []*Matrix {
	ws := []*Matrix{PackBF16(make([]byte, 2*n*k), n, k)}
	for len(ws) < 16 {
		ws = append(ws, &Matrix{N: n, K: k, bf: slices.Clone(ws[0].bf)})
	}
	return ws
}

func BenchmarkMatMulFromMemory(b *testing.B) {
	ws := memoryMatrices(4096, 2048)
	for _, rows := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			benchVariants(b, func(b *testing.B) { benchMatMul(b, rows, ws...) })
		})
	}
}

// eachFormat is a matrix of each format that matrices are multiplied in.
func eachFormat(n, k int, f func(name string, m *Matrix)) {
	mx, _ := mxMatrix(1, n, k)
	f8, _ := fp8Matrix(1, n, k)
	m8, _ := q8Matrix(1, n, k)
	m4, _ := q4Matrix(1, n, k)
	w8, _ := w8a8Matrix(1, n, k)
	w4, _ := w4a8Matrix(1, n, k)
	f("bf16", PackBF16(make([]byte, 2*n*k), n, k))
	f("w16a16", Packer{}.Pairs(k, make([]byte, 2*n*k)))
	f("fp8", f8)
	f("mxfp4", mx)
	f("q8", m8)
	f("q4", m4)
	f("w8a8", w8)
	f("w4a8", w4)
	for _, name := range []string{"Q8_0", "Q4_0", "Q4_K", "Q6_K", "GPTQ 128"} {
		c := codings[name].Coding
		if c.Check(k) != nil {
			continue // of 256 inputs that share a step
		}
		m, _ := codedMatrix(1, n, k, c)
		f(name, m)
		m, _ = codedMatrix(1, n, k, rounding(name))
		f(name+" a8", m)
	}
}

// BenchmarkMatMulPacked compares formats with gpt-oss's down projection: from
// memory, as decoding reads experts, and with many rows.
func BenchmarkMatMulPacked(b *testing.B) {
	const n, k = 2880, 2816 // rows of Q4_K are multiples of 256
	eachFormat(n, k, func(name string, m *Matrix) {
		ws := []*Matrix{m}
		for total := m.Bytes(); total < 200<<20; total += m.Bytes() {
			ws = append(ws, &Matrix{N: n, K: k, bf: slices.Clone(m.bf), codes: slices.Clone(m.codes),
				exps: slices.Clone(m.exps), scales: slices.Clone(m.scales), steps: slices.Clone(m.steps), rounds: m.rounds, coded: m.coded})
		}
		for _, rows := range []int{1, 2, 4, 8, 32, 128, 512} {
			b.Run(fmt.Sprintf("format=%s/rows=%d", name, rows), func(b *testing.B) {
				benchVariants(b, func(b *testing.B) { benchMatMul(b, rows, ws...) })
			})
		}
	})
}

// BenchmarkMatMulCached compares formats with the demo model's matrices, which stay in the L2 cache: a call
// is short enough to end before a neighbour takes the processor.
func BenchmarkMatMulCached(b *testing.B) {
	const n, k = 256, 256
	eachFormat(n, k, func(name string, m *Matrix) {
		for _, rows := range []int{1, 4, 32, 128} {
			b.Run(fmt.Sprintf("format=%s/rows=%d", name, rows), func(b *testing.B) {
				benchVariants(b, func(b *testing.B) { benchMatMul(b, rows, m) })
			})
		}
	})
}

// BenchmarkMatMulPadded compares a panel that has an output less with a whole one.
func BenchmarkMatMulPadded(b *testing.B) {
	const k = 4096
	for _, n := range []int{PanelWidth - 1, PanelWidth} {
		m8, _ := q8Matrix(1, n, k)
		m4, _ := q4Matrix(1, n, k)
		for name, m := range map[string]*Matrix{"q8": m8, "q4": m4} {
			b.Run(fmt.Sprintf("format=%s/n=%d", name, n), func(b *testing.B) {
				benchVariants(b, func(b *testing.B) { benchMatMul(b, 1, m) })
			})
		}
	}
}

// BenchmarkMatMulThreads shares the work as a step of a model does.
func BenchmarkMatMulThreads(b *testing.B) {
	const parts = 16
	threads := runtime.GOMAXPROCS(0)
	p := pool.New(threads)
	defer p.Close()
	read := ceiling.Bandwidth(256<<20, threads)
	ws := memoryMatrices(4096, 2048)
	for _, rows := range []int{1, 8, 32} {
		x, y := floats(1, rows*2048), make([]float32, rows*4096)
		b.Run(fmt.Sprintf("rows=%d/threads=%d", rows, threads), func(b *testing.B) {
			i := 0
			for b.Loop() {
				w := ws[i%len(ws)]
				i++
				p.Run(parts, func(j int) {
					MatMul(y, w.N, x, w.K, rows, w, j*w.Panels()/parts, (j+1)*w.Panels()/parts)
				})
			}
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(float64(ws[0].Bytes())*rate/1e9, "GB/s")
			b.ReportMetric(float64(ws[0].Bytes())*rate/read, "bandwidth_ratio")
			b.ReportMetric(float64(2*rows*4096*2048)*rate/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkAttend(b *testing.B) {
	for _, s := range []struct {
		Heads
		positions int
	}{
		{Heads{1, 4, 32}, 64}, {Heads{1, 4, 32}, 1024}, {Heads{1, 2, 32}, 1024}, {Heads{4, 2, 32}, 200},
		{Heads{4, 1, 64}, 1024}, {Heads{4, 8, 128}, 1024},
	} {
		b.Run(fmt.Sprintf("kv=%d/g=%d/c=%d/positions=%d", s.KV, s.Group, s.Dim, s.positions), func(b *testing.B) {
			benchVariants(b, func(b *testing.B) { benchAttend(b, KVF32, s.Heads, s.positions, 1) })
		})
	}
}

// BenchmarkAttendFromMemory takes another sequence each time, as a decoding
// batch does: their keys and values are more than the caches hold.
func BenchmarkAttendFromMemory(b *testing.B) {
	for _, s := range []struct {
		Heads
		positions, sequences int
	}{{Heads{4, 2, 32}, 200, 400}, {Heads{8, 4, 128}, 1024, 20}} {
		for i, f := range []KVFormat{KVF32, KVBF16, KVInt8} {
			name := fmt.Sprintf("kv=%d/g=%d/c=%d/positions=%d/kept=%s", s.KV, s.Group, s.Dim, s.positions, []string{"f32", "bf16", "int8"}[i])
			b.Run(name, func(b *testing.B) {
				benchVariants(b, func(b *testing.B) { benchAttend(b, f, s.Heads, s.positions, s.sequences<<i) })
			})
		}
	}
}

// BenchmarkAttendLatent has the shapes of DeepSeek-V2-Lite and DeepSeek-V3.
func BenchmarkAttendLatent(b *testing.B) {
	for _, s := range []struct {
		Latent
		positions, sequences int
	}{
		{Latent{16, 512, 64, KVF32}, 1024, 1}, {Latent{16, 512, 64, KVF32}, 1024, 32}, {Latent{16, 512, 64, KVBF16}, 1024, 32}, {Latent{16, 512, 64, KVInt8}, 1024, 32}, {Latent{32, 512, 64, KVF32}, 1024, 32}, {Latent{128, 512, 64, KVF32}, 1024, 1},
	} {
		b.Run(fmt.Sprintf("heads=%d/positions=%d/sequences=%d/format=%d", s.Heads, s.positions, s.sequences, s.Format), func(b *testing.B) {
			benchVariants(b, func(b *testing.B) { benchAttendLatent(b, s.Latent, s.positions, s.sequences) })
		})
	}
}

func benchAttendLatent(b *testing.B, l Latent, positions, sequences int) {
	lines := floats(1, positions*l.Width())
	all := make([][][]float32, sequences)
	for i := range all {
		all[i] = latentPages(l, lines)
	}
	q, out := floats(2, l.Heads*l.Width()), make([]float32, l.Heads*l.Rank)
	scratch := make([]float32, LatentScratch(l, positions))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		AttendLatent(out, q, l, all[i%sequences], positions, 0.2, scratch)
		i++
	}
	report(b, float64(2*l.Heads*positions*(l.Width()+l.Rank)), float64(4*l.Words()*len(all[0])), sequences > 1)
}

func benchAttend(b *testing.B, f KVFormat, h Heads, positions, sequences int) {
	n := h.KV * positions * h.Dim
	keys, values := floats(1, n), floats(2, n)
	all := make([][][]float32, sequences)
	for i := range all {
		all[i] = pagesIn(f, keys, values, h.KV, h.Dim)
	}
	q, out := floats(3, h.KV*h.Group*h.Dim), make([]float32, h.KV*h.Group*h.Dim)
	scratch := make([]float32, AttendScratch(h, positions))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		AttendKept(f, nil, out, q, h, all[i%sequences], 0, positions, 0.2, nil, scratch)
		i++
	}
	report(b, float64(4*h.Group*n), float64(8*f.Words(h.Dim)*h.KV*positions/PagePositions), sequences > 1)
}

func BenchmarkVector(b *testing.B) {
	const n = 2048
	x, y, z := floats(1, n), floats(2, n), make([]float32, n)
	raw := make([]byte, 2*n)
	for name, f := range map[string]func(){
		"norm": func() { RMSNorm(z, x, y, 1e-6) }, "swiglu": func() { SwiGLU(z, x, y) },
		"clamped": func() { ClampedSwiGLU(z, x, y, 7) },
		"softmax": func() { Softmax(z) }, "add": func() { Add(z, x) }, "tobf16": func() { ToBF16(raw, x) },
		"roundbf16": func() { RoundBF16(z) },
	} {
		b.Run(name, func(b *testing.B) {
			benchVariants(b, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		})
	}
}

func BenchmarkPack(b *testing.B) {
	const n, k = 1024, 1024
	src, scales := make([]byte, 2*n*k), make([]float32, n*k/FP8Block)
	for name, f := range map[string]func(){
		"bf16":  func() { PackBF16(src, n, k) },
		"fp8":   func() { PackFP8(src[:n*k], scales, n, k) },
		"mxfp4": func() { Packer{}.MXFP4(src[:n*k/2], src[:n*k/MXBlock], n, k) },
	} {
		b.Run("format="+name, func(b *testing.B) {
			b.SetBytes(2 * n * k) // as bf16, whatever the format
			for b.Loop() {
				f()
			}
		})
	}
}
