package forward

import (
	"context"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// ffn is a feed-forward network: down · activate(in·x + bias) + bias.
type ffn struct {
	in       *cpu.Matrix // (2F, D): gate's rows, then up's; or up's alone, (F, D)
	inBias   []float32   // (2F) or (F), or nil
	down     *cpu.Matrix // (D, F)
	downBias []float32   // (D), or nil
	activate activation
}

type ffnRefs struct {
	spec           model.FFNSpec
	in, inBias     []model.Ref
	down, downBias model.Ref
}

func refsOf(spec model.FFNSpec, layer, expert int, roles model.FFNRoles) ffnRefs {
	ref := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: layer, Expert: expert} }
	r := ffnRefs{spec: spec, down: ref(roles.Down), downBias: ref(roles.DownBias)}
	if spec.Activation.Gated() {
		r.in, r.inBias = append(r.in, ref(roles.Gate)), append(r.inBias, ref(roles.GateBias))
	}
	r.in, r.inBias = append(r.in, ref(roles.Up)), append(r.inBias, ref(roles.UpBias))
	return r
}

type ffnLayouts struct{ in, down layout }

func (r ffnRefs) layouts(m *model.Model) (l ffnLayouts, err error) {
	if l.in, err = layoutOf(m, r.in...); err == nil {
		l.down, err = layoutOf(m, r.down)
	}
	return l, err
}

// ahead returns the matrices that nobody reads by what brings them near, so that the system is to be told of them before.
func (r ffnRefs) ahead(l ffnLayouts, near bool) (refs []model.Ref) {
	if !near || !cpu.Nears(l.in.row()) {
		refs = append(refs, r.in...)
	}
	if !near || !cpu.Nears(l.down.row()) {
		refs = append(refs, r.down)
	}
	return refs
}

// loadFFN stops between the two matrices when ctx ends.
func loadFFN(ctx context.Context, by cpu.Packer, m *model.Model, r ffnRefs) (*ffn, error) {
	l, err := r.layouts(m)
	if err != nil {
		return nil, err
	}
	return loadFFNAs(ctx, by, m, r, l)
}

func loadFFNAs(ctx context.Context, by cpu.Packer, m *model.Model, r ffnRefs, l ffnLayouts) (f *ffn, err error) {
	f = &ffn{}
	if f.activate, err = activationOf(&r.spec); err != nil {
		return nil, err
	}
	if f.in, err = loadAs(by, m, r.in, l.in); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.down, err = loadAs(by, m, []model.Ref{r.down}, l.down); err != nil {
		return nil, err
	}
	if r.spec.Bias {
		err = f.loadBiases(m, r)
	}
	return f, err
}

func (f *ffn) loadBiases(m *model.Model, r ffnRefs) (err error) {
	if f.inBias, err = loadFloats(m, r.inBias...); err != nil {
		return err
	}
	f.downBias, err = loadFloats(m, r.downBias)
	return err
}

// bytes returns what the loaded network's bytes will be.
func (r ffnRefs) bytes(m *model.Model) (int64, error) {
	l, err := r.layouts(m)
	n := l.in.bytes() + l.down.bytes()
	if r.spec.Bias {
		n += 4 * int64(l.in.n+l.down.n)
	}
	return n, err
}

func (f *ffn) hidden() int { return f.down.N }
func (f *ffn) width() int  { return f.down.K }
func (f *ffn) bytes() int64 {
	return f.in.Bytes() + f.down.Bytes() + 4*int64(len(f.inBias)+len(f.downBias))
}
func (f *ffn) nanos(rows int) int {
	return matMulNanos(rows, f.in) + matMulNanos(rows, f.down)
}

func (f *ffn) floatsFor(rows int) int { return (f.in.N + f.width()) * rows }

// run is dst (rows, D) of x (rows, D). scratch has floatsFor(rows) elements.
func (f *ffn) run(p workers, dst, x []float32, rows int, scratch []float32) {
	w := f.width()
	inner, act := scratch[:rows*f.in.N], scratch[rows*f.in.N:f.floatsFor(rows)]
	matMul(p, inner, x, rows, f.in)
	eachRow(p, rows, w, func(from, to int) {
		addBias(inner, f.inBias, from, to)
		f.activate(act, inner, from, to, w)
	})
	matMul(p, dst, act, rows, f.down)
	addBiases(p, dst, f.downBias, rows)
}

// runInline is run on the calling goroutine alone, which lets others run between pieces.
func (f *ffn) runInline(dst, x []float32, rows int, scratch []float32) {
	w := f.width()
	inner, act := scratch[:rows*f.in.N], scratch[rows*f.in.N:f.floatsFor(rows)]
	matMul(workers{}, inner, x, rows, f.in)
	addBias(inner, f.inBias, 0, rows)
	f.activate(act, inner, 0, rows, w)
	matMul(workers{}, dst, act, rows, f.down)
	addBias(dst, f.downBias, 0, rows)
}

func addBiases(p workers, x, bias []float32, rows int) {
	if bias != nil {
		eachRow(p, rows, len(bias)/addedPerNano, func(from, to int) { addBias(x, bias, from, to) })
	}
}

// addBias adds bias, if there is one, to the rows [from, to) of x.
func addBias(x, bias []float32, from, to int) {
	n := len(bias)
	if n == 0 {
		return
	}
	for r := from; r < to; r++ {
		cpu.Add(x[r*n:(r+1)*n], bias)
	}
}
