package forward

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

var quantised = map[model.Precision]cpu.Format{
	model.Q8: cpu.Q8, model.Q4: cpu.Q4, model.W8A8: cpu.W8A8, model.W4A8: cpu.W4A8,
}

// CheckPrecision refuses a precision that a matrix of the model cannot have, or that none has. It reads no weights.
func CheckPrecision(m *model.Model) error {
	if err := m.CheckPrecision(); err != nil {
		return err
	}
	rounds := m.Precision != model.A8
	for need := range m.Spec.Needs() {
		if !need.Ref.Role.Rounded() {
			continue
		}
		l, err := layoutOf(m, need.Ref)
		if err != nil {
			return err
		}
		rounds = rounds || l.coding.Rounds
	}
	if !rounds {
		return fmt.Errorf("no matrix of model %s is stored as codes that rows in 8 bits meet: w8a8 and w4a8 make codes", m.Name)
	}
	return nil
}

// stackQuantised quantises tensors row by row, without a copy of them in float32 unless they are in int4.
func stackQuantised(by cpu.Packer, m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	all := make([]model.Tensor, len(refs))
	for i, ref := range refs {
		var err error
		if all[i], err = m.Tensor(ref); err != nil {
			return nil, fmt.Errorf("model %s in %s: loading weights: %w", m.Name, m.Precision, err)
		}
	}
	// home is the tensor that has an output of the matrix, and its place there.
	home := func(i int) (model.Tensor, int) {
		at := 0
		for ; i >= all[at].Shape[0]; at++ {
			i -= all[at].Shape[0]
		}
		return all[at], i
	}
	w, err := by.Quantise(l.n, l.k, l.format, func(i int, row []float32) error {
		t, at := home(i)
		return rowOf(row, t, at)
	})
	if of := (*cpu.OutputError)(nil); errors.As(err, &of) {
		t, _ := home(of.Output)
		err = fmt.Errorf("model %s: tensor %q in %s: %w", m.Name, t.Name, m.Precision, err)
	}
	return w, err
}

// rowOf fills out with a row of a matrix.
func rowOf(out []float32, t model.Tensor, i int) error {
	size := len(t.Data) / t.Shape[0]
	t.Shape, t.Data = t.Shape[1:], t.Data[i*size:(i+1)*size]
	if err := t.FloatsTo(out); err != nil {
		return fmt.Errorf("loading weights: %w", err)
	}
	return nil
}

// Rounding is what a precision does to matrices of one role of a layer, of all its experts.
type Rounding struct {
	Ref    model.Ref `json:"-"`
	Role   string    `json:"role"`
	Layer  int       `json:"layer"`
	Stored int64     `json:"stored_bytes"`
	Kept   int64     `json:"kept_bytes"`
	// Error is the root of the sum of squared differences over that of squared weights.
	Error float64 `json:"relative_error"`
}

// Roundings tells each of what the model's precision does to its matrices. It has one of
// them in memory at a time.
func Roundings(ctx context.Context, m *model.Model, tell func(Rounding) error) error {
	for need := range m.Spec.Needs() {
		if need.Ref.Role == model.Embed && !m.Spec.TiedEmbeddings {
			continue // rows are looked up in it, and not multiplied with it
		}
		r, some, err := rounding(ctx, m, need)
		if err == nil && some {
			err = tell(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rounding reports false for a role whose matrices stay as they are.
func rounding(ctx context.Context, m *model.Model, need model.Need) (r Rounding, some bool, err error) {
	ref := need.Ref
	if !ref.Role.Rounded() {
		return r, false, nil
	}
	r = Rounding{Ref: ref, Role: ref.Role.String(), Layer: ref.Layer}
	lost, all := 0.0, 0.0
	for ref.Expert = range need.Count {
		if err := ctx.Err(); err != nil {
			return r, false, err
		}
		l, err := layoutOf(m, ref)
		if err != nil || !l.format.Grouped() || l.filed {
			return r, false, err
		}
		t, err := m.Tensor(ref)
		if err != nil {
			return r, false, err
		}
		w, err := stackQuantised(cpu.Packer{}, m, []model.Ref{ref}, l)
		if err != nil {
			return r, false, err
		}
		r.Stored, r.Kept = r.Stored+int64(len(t.Data)), r.Kept+w.Bytes()
		if err := squares(&lost, &all, t, w); err != nil {
			return r, false, err
		}
	}
	if all > 0 {
		r.Error = math.Sqrt(lost / all)
	}
	return r, true, nil
}

// squares adds those of differences, and of weights.
func squares(lost, all *float64, t model.Tensor, w *cpu.Matrix) error {
	got, row := make([]float32, w.K), make([]float32, w.K)
	for i := range w.N {
		if err := rowOf(row, t, i); err != nil {
			return err
		}
		w.DecodedRow(got, i)
		for k, v := range row {
			d := float64(v) - float64(got[k])
			*lost, *all = *lost+d*d, *all+float64(v)*float64(v)
		}
	}
	return nil
}
