package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Settings say how a model is quantised.
type Settings struct {
	Precision model.Precision // model.Q8 or model.Q4
	// ShardBytes is the most bytes of weights in a file, unless one matrix has more.
	ShardBytes int64
	// Threads quantise side by side.
	Threads int
	// Progress hears of the bytes written so far, one call after the other; it may be nil.
	Progress func(done, total int64)

	create func(path string) (file, error) // of tests
}

// Summary says what was written.
type Summary struct {
	Out       string          `json:"out"`
	Precision model.Precision `json:"precision"`
	Matrices  int             `json:"matrices"` // that became codes; those of all experts in one tensor count as one
	Tensors   int             `json:"tensors"`
	Files     int             `json:"files"`
	Bytes     int64           `json:"bytes"`
	From      int64           `json:"from_bytes"`
}

var formats = map[model.Precision]cpu.Format{model.Q8: cpu.Q8, model.Q4: cpu.Q4}

// Quantise writes the folder out with a copy of the model in which the matrices that a precision is for
// are codes: those that it has in memory with s.Precision, so that answers have the same bits. Mistakes of the
// caller, and models that are not quantised ahead, are ErrInput.
func Quantise(ctx context.Context, m *model.Model, out string, s Settings) (*Summary, error) {
	units, sum, err := plan(m, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	sum.Out = out
	err = InPlace(out, func(partial string) error {
		config, err := m.AheadConfig(s.Precision)
		if err != nil {
			return err
		}
		w := newWriter(m, partial, s, sum.Bytes)
		if sum.Files, err = w.write(ctx, units); err != nil {
			return err
		}
		if err := CopySide(m, partial); err != nil {
			return err
		}
		if err := WriteSide(partial, Config, config); err != nil { // last: without it the folder is no model
			return err
		}
		return check(ctx, partial)
	})
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w; the copy takes %d MB in all", err, (sum.Bytes+1e6-1)/1e6)
	}
	if err != nil {
		return nil, err
	}
	return sum, nil
}

// unit is what is written of a stored tensor.
type unit struct {
	model.Ahead
	tensors []safetensors.Tensor // without Data: of groups codes, scales and perhaps the shape
}

func (u *unit) bytes() (n int64) {
	for _, t := range u.tensors {
		n += t.DType.Bytes(int64(t.Len()))
	}
	return n
}

func plan(m *model.Model, s Settings) ([]unit, *Summary, error) {
	format, ok := formats[s.Precision]
	switch {
	case !ok:
		return nil, nil, fmt.Errorf("precision is %q; weights are stored in %s or %s", s.Precision, model.Q8, model.Q4)
	case s.ShardBytes < 1:
		return nil, nil, fmt.Errorf("shard-size is %d bytes; it must be 1 or more", s.ShardBytes)
	}
	if err := m.CheckAhead(); err != nil {
		return nil, nil, err
	}
	m.In(s.Precision)
	if err := forward.CheckPrecision(m); err != nil {
		return nil, nil, err
	}
	sum := &Summary{Precision: s.Precision, From: m.Bytes}
	var units []unit
	for a := range m.Ahead() {
		u := unit{a, []safetensors.Tensor{{Name: a.From.Name, DType: a.From.DType, Shape: a.From.Shape}}}
		if a.Groups {
			u.tensors = groupTensors(a, format)
			sum.Matrices++
		}
		sum.Tensors += len(u.tensors)
		sum.Bytes += u.bytes()
		units = append(units, u)
	}
	return units, sum, nil
}

// groupTensors describe what becomes of a matrix, or of a stack of them.
func groupTensors(a model.Ahead, f cpu.Format) []safetensors.Tensor {
	codes, scales := cpu.GroupBytes(a.K, f)
	packed, scale := []int{a.N, codes / 4}, []int{a.N, scales / 2}
	if a.Experts > 0 {
		packed, scale = append([]int{a.Experts}, packed...), append([]int{a.Experts}, scale...)
	}
	all := []safetensors.Tensor{
		{Name: a.Name + "_packed", DType: safetensors.I32, Shape: packed},
		{Name: a.Name + "_scale", DType: safetensors.BF16, Shape: scale},
	}
	if a.Experts > 0 {
		return all
	}
	return append(all, safetensors.Tensor{Name: a.Name + "_shape", DType: safetensors.I64, Shape: []int{2}})
}

// check opens what was written as whoever serves it will.
func check(ctx context.Context, dir string) error {
	m, err := model.OpenWith(ctx, dir, model.Settings{Unhashed: true})
	if err != nil {
		return fmt.Errorf("what came out cannot be served: %w", err)
	}
	return m.Close()
}
