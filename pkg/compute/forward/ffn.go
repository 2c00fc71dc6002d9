package forward

import (
	"context"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// ffn is a gated feed-forward network: down · (silu(gate·x) ⊙ up·x).
type ffn struct {
	gateUp *cpu.Matrix // (2F, D): gate's rows, then up's
	down   *cpu.Matrix // (D, F)
}

// ffnRefs names the tensors of an ffn.
type ffnRefs struct{ gate, up, down model.Ref }

func refsOf(layer, expert int, gate, up, down model.Role) ffnRefs {
	ref := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: layer, Expert: expert} }
	return ffnRefs{ref(gate), ref(up), ref(down)}
}

// loadFFN stops between the two matrices when ctx ends.
func loadFFN(ctx context.Context, m *model.Model, refs ffnRefs) (*ffn, error) {
	gateUp, err := loadMatrix(m, refs.gate, refs.up)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	down, err := loadMatrix(m, refs.down)
	if err != nil {
		return nil, err
	}
	return &ffn{gateUp: gateUp, down: down}, nil
}

// bytes is what the loaded network's bytes will be.
func (r ffnRefs) bytes(m *model.Model) (int64, error) {
	gateUp, err := layoutOf(m, r.gate, r.up)
	if err != nil {
		return 0, err
	}
	down, err := layoutOf(m, r.down)
	return gateUp.bytes() + down.bytes(), err
}

func (f *ffn) hidden() int  { return f.down.N }
func (f *ffn) width() int   { return f.down.K }
func (f *ffn) bytes() int64 { return f.gateUp.Bytes() + f.down.Bytes() }
func (f *ffn) nanos(rows int) int {
	return matMulNanos(rows, f.gateUp) + matMulNanos(rows, f.down)
}

// floatsFor is the scratch that rows of this network need.
func (f *ffn) floatsFor(rows int) int { return 3 * f.width() * rows }

// run is dst (rows, D) of x (rows, D). scratch has floatsFor(rows) elements.
func (f *ffn) run(p workers, dst, x []float32, rows int, scratch []float32) {
	w := f.width()
	inner, act := scratch[:rows*2*w], scratch[rows*2*w:rows*3*w]
	matMul(p, inner, x, rows, f.gateUp)
	swiGLU(p, act, inner, rows, w)
	matMul(p, dst, act, rows, f.down)
}

// runInline is run on the calling goroutine alone.
func (f *ffn) runInline(dst, x []float32, rows int, scratch []float32) {
	w := f.width()
	inner, act := scratch[:rows*2*w], scratch[rows*2*w:rows*3*w]
	cpu.MatMul(inner, 2*w, x, f.gateUp.K, rows, f.gateUp, 0, f.gateUp.Panels())
	activate(act, inner, 0, rows, w)
	cpu.MatMul(dst, f.down.N, act, w, rows, f.down, 0, f.down.Panels())
}

// swiGLU is act (rows, F) of inner (rows, 2F).
func swiGLU(p workers, act, inner []float32, rows, w int) {
	eachRow(p, rows, w, func(from, to int) { activate(act, inner, from, to, w) })
}

func activate(act, inner []float32, from, to, w int) {
	for r := from; r < to; r++ {
		g := inner[r*2*w : (r+1)*2*w]
		cpu.SwiGLU(act[r*w:(r+1)*w], g[:w], g[w:])
	}
}
