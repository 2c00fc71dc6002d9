// Package forward is the computation of a Mixture-of-Experts model, cut where
// the pipeline cuts it:
//
//	Backbone   embedding, attention, norms, shared and dense experts, LM head  (attention service)
//	Router  logits, top-k, routing weights                                  (gate service)
//	Expert  a routed expert's weights; rows computed with loaded ones       (expert hosts)
//	Combine the sum of a row's expert outputs in slot order                 (aggregator)
//
// Services call these with messages between them; Local calls them one after
// the other and is the oracle and the baseline of the pipeline. There is no
// second implementation of a layer.
//
// The letters of shapes are those of package kernels/cpu.
package forward

import (
	"runtime"
	"sync/atomic"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
)

// Costs that decide how work is cut: an item should take long enough to be
// worth handing over and never so long that messages wait for it.
const (
	itemNanos   = 20_000
	leastNanos  = 1_000   // of an item, where there are few
	inlineNanos = 50_000  // less is not worth waking a thread for
	mostNanos   = 160_000 // of an item
	// Conservative speeds of one core on the kernels.
	flopsPerNano       = 150
	attendFlopsPerNano = 50 // attention reads keys and values once a row
	bytesPerNano       = 40
)

// Progress counts the pieces of work that are done, so that others can tell a
// long step from one that hangs. A nil one counts nothing.
type Progress struct{ done atomic.Uint64 }

// Tick counts a piece.
func (p *Progress) Tick() {
	if p != nil {
		p.done.Add(1)
	}
}

// Done returns how many pieces there were.
func (p *Progress) Done() uint64 { return p.done.Load() }

// workers is where work is computed and counted.
type workers struct {
	*pool.Pool
	progress *Progress
}

// matMul is dst (rows, N) = x (rows, K) · wᵀ, cut over the pool by panels.
func matMul(p workers, dst, x []float32, rows int, w *cpu.Matrix) {
	matMulFrom(p, dst, x, w.K, rows, w)
}

// matMulFrom is matMul of rows of x that are ldX apart.
func matMulFrom(p workers, dst, x []float32, ldX, rows int, w *cpu.Matrix) {
	panels, nanos := w.Panels(), matMulNanos(rows, w)
	parts := p.parts(nanos)
	if p.Pool == nil && nanos > mostNanos {
		parts = pieces(nanos)
	}
	if parts <= 1 {
		cpu.MatMul(dst, w.N, x, ldX, rows, w, 0, panels)
		p.progress.Tick()
		return
	}
	across := even(panels, parts)
	if w.RoundsRows() {
		matMulRounded(p, dst, x, ldX, rows, w, across)
		return
	}
	down := even(rows, min(parts/across, rows/leastRows))
	p.run(across*down, func(i int) {
		column, from, to := i/down, i%down*rows/down, (i%down+1)*rows/down
		cpu.MatMul(dst[from*w.N:], w.N, x[from*ldX:], ldX, to-from, w, column*panels/across, (column+1)*panels/across)
		p.progress.Tick()
	})
}

// leastRows are enough for an item of few panels: kernels decode a weight once for about as many.
const leastRows = 12

// matMulRounded is matMulFrom of rows that are rounded once for all parts.
func matMulRounded(p workers, dst, x []float32, ldX, rows int, w *cpu.Matrix, parts int) {
	r, panels := w.NewRounded(rows), w.Panels()
	defer r.Release()
	eachRow(p, rows, w.K/roundedPerNano, func(from, to int) { r.Round(x[from*ldX:], ldX, from, to) })
	p.run(parts, func(i int) {
		cpu.MatMulRounded(dst, w.N, r, w, i*panels/parts, (i+1)*panels/parts)
		p.progress.Tick()
	})
}

// run is Run of the pool, or of no pool: then other goroutines get their turns in between.
func (p workers) run(parts int, f func(i int)) {
	if p.Pool != nil {
		p.Run(parts, f)
		return
	}
	for i := range parts {
		f(i)
		runtime.Gosched()
	}
}

// How many values are rounded, or added, in a nanosecond.
const (
	roundedPerNano = 2
	addedPerNano   = 4
)

func matMulNanos(rows int, w *cpu.Matrix) int {
	return max(2*rows*w.N*w.K/flopsPerNano, int(w.Bytes())/bytesPerNano)
}

func (p workers) parts(nanos int) int {
	if nanos < 2*leastNanos || p.Pool == nil {
		return 1
	}
	return cut(nanos, p.Threads(), p.Awake())
}

// cut gives each thread as many items, so that none waits for another's last one. Of short work the threads that are
// awake get some, and its caller.
func cut(nanos, threads, awake int) int {
	if nanos < inlineNanos {
		if awake == 0 {
			return 1
		}
		threads = min(threads, awake+1)
	}
	if n := nanos / itemNanos; n >= threads {
		return (n + threads - 1) / threads * threads
	}
	return max(1, min(threads, nanos/leastNanos))
}

// even returns how many parts of n things, at most so many, are there with which the largest is no larger.
func even(n, parts int) int {
	if parts <= 1 || n <= 1 {
		return 1
	}
	largest := (n + parts - 1) / parts
	return (n + largest - 1) / largest
}

// eachRow runs f on ranges of rows, cut by what a row costs.
func eachRow(p workers, rows, nanosPerRow int, f func(from, to int)) {
	eachRowBy(p, p.run, rows, nanosPerRow, f)
}

func eachRowBy(p workers, run func(n int, f func(i int)), rows, nanosPerRow int, f func(from, to int)) {
	parts := even(rows, p.parts(rows*nanosPerRow))
	if parts <= 1 {
		f(0, rows)
		p.progress.Tick()
		return
	}
	run(parts, func(i int) {
		f(i*rows/parts, (i+1)*rows/parts)
		p.progress.Tick()
	})
}
