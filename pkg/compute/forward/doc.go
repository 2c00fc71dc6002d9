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
	leastNanos  = 5_000   // of an item, where there are fewer than threads
	inlineNanos = 50_000  // less is not worth waking a thread for,
	awakeNanos  = 10_000  // nor this worth handing to one that is awake
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

// Done is how many pieces there were.
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
	parts := min(p.parts(nanos), panels)
	if p.Pool == nil && nanos > mostNanos {
		parts = min((nanos+mostNanos-1)/mostNanos, panels)
	}
	if parts <= 1 {
		cpu.MatMul(dst, w.N, x, ldX, rows, w, 0, panels)
		p.progress.Tick()
		return
	}
	part := func(from, to int) { cpu.MatMul(dst, w.N, x, ldX, rows, w, from, to) }
	if w.RoundsRows() {
		r := w.NewRounded(rows) // once for all parts
		defer r.Release()
		eachRow(p, rows, w.K/roundedPerNano, func(from, to int) { r.Round(x[from*ldX:], ldX, from, to) })
		part = func(from, to int) { cpu.MatMulRounded(dst, w.N, r, w, from, to) }
	}
	p.run(parts, func(i int) {
		part(i*panels/parts, (i+1)*panels/parts)
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

// parts is into how many items work is cut.
func (p workers) parts(nanos int) int {
	if nanos < awakeNanos || p.Pool == nil {
		return 1
	}
	return cut(nanos, p.Threads(), p.Awake())
}

// cut gives each thread as many items, so that none waits for another's last one.
func cut(nanos, threads int, awake bool) int {
	if nanos < awakeNanos || nanos < inlineNanos && !awake {
		return 1
	}
	if n := nanos / itemNanos; n >= threads {
		return (n + threads - 1) / threads * threads
	}
	return min(threads, nanos/leastNanos)
}

// eachRow runs f on ranges of rows, cut by what a row costs.
func eachRow(p workers, rows, nanosPerRow int, f func(from, to int)) {
	parts := min(p.parts(rows*nanosPerRow), rows)
	if parts <= 1 {
		f(0, rows)
		p.progress.Tick()
		return
	}
	p.Run(parts, func(i int) {
		f(i*rows/parts, (i+1)*rows/parts)
		p.progress.Tick()
	})
}
