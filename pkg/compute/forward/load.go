package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// layout is the shape (n, k) of a matrix before it is packed, and its format then.
type layout struct {
	n, k   int
	format cpu.Format
	coding cpu.Coding // of cpu.Coded
	parts  []layout   // of a matrix whose tensors have formats of their own
	filed  bool       // the files have it in groups
}

// formats are those that tensors of a type keep.
var formats = map[safetensors.DType]cpu.Format{
	safetensors.BF16: cpu.BF16, safetensors.F4: cpu.MXFP4, safetensors.E4M3: cpu.FP8,
}

// layoutOf is that of the tensors of refs, one below the other. It reads no
// weights. What is not all of one type is packed as float32, unless some are codes, and what the
// model's precision is for as that says.
func layoutOf(m *model.Model, refs ...model.Ref) (l layout, err error) {
	rounded, parts := m.Precision.Own(), make([]layout, 0, len(refs))
	for i, ref := range refs {
		p, err := storedLayout(m, ref)
		if err != nil {
			return layout{}, fmt.Errorf("loading weights: %w", err)
		}
		rounded = rounded && ref.Role.Rounded() && (p.format <= cpu.BF16 || p.format == cpu.Coded)
		parts = append(parts, p)
		p.n += l.n
		if i > 0 && !p.like(l) {
			p.format, p.coding, p.filed = cpu.F32, cpu.Coding{}, false
		}
		l = p
	}
	if !rounded || m.Precision.KeepsStored() {
		return l.stored(parts, rounded && m.Precision == model.W16A16), nil
	}
	l.format, l.coding = quantised[m.Precision], cpu.Coding{}
	if err := cpu.CheckGroups(l.k); err != nil {
		return l, fmt.Errorf("weights in %s: %v of model %s: %w", m.Precision, refs[0], m.Name, err)
	}
	return l, nil
}

// storedLayout returns a tensor's as the files have it, with rows in 8 bits for its codes where the precision says so.
func storedLayout(m *model.Model, ref model.Ref) (l layout, err error) {
	f, err := m.Form(ref)
	if err != nil {
		return l, err
	}
	l = layout{n: f.Shape[0], k: f.Shape[1], format: formats[f.DType]} // otherwise float32
	if f.Coded {
		l.format, l.coding = cpu.Coded, f.Coding
		l.coding.Rounds = m.Precision == model.A8 && ref.Role.Rounded() && f.Coding.CanRound(l.k)
	}
	if f.Filed {
		l.format, l.filed = f.Grouped, true
		if rows := quantised[m.Precision]; ref.Role.Rounded() && (rows == cpu.W8A8 || rows == cpu.W4A8) {
			l.format += cpu.W8A8 - cpu.Q8
		}
	}
	return l, nil
}

// like reports whether two matrices are packed in one way.
func (l layout) like(o layout) bool {
	return l.format == o.format && l.coding == o.coding && l.filed == o.filed
}

// stored returns the layout where weights stay as they are; paired, with rows of bf16 for those of bf16. Rows for
// others stay as they are.
func (l layout) stored(parts []layout, paired bool) layout {
	for _, p := range parts {
		if !p.like(parts[0]) {
			return l.mixed(parts)
		}
	}
	if paired && l.format == cpu.BF16 {
		l.format = cpu.W16A16
	}
	return l
}

// near reports whether a packer moves all of the files' bytes, panel by panel: cpu.Packer.Near has a use then.
func (l layout) near() bool {
	return l.parts == nil && (l.filed || l.format == cpu.BF16 || l.format == cpu.W16A16)
}

// row returns how many bytes the files have of a row that near moves: of one in groups, its codes.
func (l layout) row() int {
	if l.filed {
		codes, _ := cpu.GroupBytes(l.k, l.format)
		return codes
	}
	return 2 * l.k
}

func (l layout) bytes() (n int64) {
	for _, p := range l.parts {
		n += p.bytes()
	}
	switch {
	case l.parts != nil:
		return n
	case l.format == cpu.Coded:
		return l.coding.PackedBytes(l.n, l.k)
	}
	return cpu.PackedBytes(l.n, l.k, l.format)
}

// loadMatrix packs the tensors of refs, one below the other, as one matrix:
// those that share an input are computed in one call.
func loadMatrix(m *model.Model, refs ...model.Ref) (*cpu.Matrix, error) {
	return loadBy(cpu.Packer{}, m, refs...)
}

func loadBy(by cpu.Packer, m *model.Model, refs ...model.Ref) (*cpu.Matrix, error) {
	l, err := layoutOf(m, refs...)
	if err != nil {
		return nil, err
	}
	return loadAs(by, m, refs, l)
}

func loadAs(by cpu.Packer, m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	if l.parts != nil {
		return stackParts(by, m, refs, l)
	}
	switch l.format {
	case cpu.Coded:
		return stackCoded(by, m, refs, l)
	case cpu.BF16:
		return stackBF16(m, refs, l.k, by.BF16)
	case cpu.W16A16:
		return stackBF16(m, refs, l.k, by.Pairs)
	case cpu.MXFP4, cpu.FP8:
		return stackPacked(by, m, refs, l)
	case cpu.Q8, cpu.Q4, cpu.W8A8, cpu.W4A8:
		if l.filed {
			return stackGroups(by, m, refs, l)
		}
		return stackQuantised(by, m, refs, l)
	}
	return stackFloats(by, m, refs, l)
}

func stackBF16(m *model.Model, refs []model.Ref, k int, pack func(k int, parts ...[]byte) *cpu.Matrix) (*cpu.Matrix, error) {
	parts := make([][]byte, len(refs))
	for i, ref := range refs {
		t, err := m.Tensor(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		parts[i] = t.Data
	}
	return pack(k, parts...), nil
}

func stackPacked(by cpu.Packer, m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	var all model.Packed
	for _, ref := range refs {
		p, err := m.Packed(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		all.Data = append(all.Data, p.Data...)
		all.Exponents = append(all.Exponents, p.Exponents...)
		all.Factors = append(all.Factors, p.Factors...)
	}
	if l.format == cpu.MXFP4 {
		return by.MXFP4(all.Data, all.Exponents, l.n, l.k), nil
	}
	return by.FP8(all.Data, all.Factors, l.n, l.k), nil
}

func stackFloats(by cpu.Packer, m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	all, at := make([]float32, l.n*l.k), 0
	for _, ref := range refs {
		t, err := m.Stat(ref)
		if err == nil {
			err = m.FloatsTo(ref, all[at:][:t.Len()])
		}
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		at += t.Len()
	}
	return by.F32(all, l.n, l.k), nil
}

func loadFloats(m *model.Model, refs ...model.Ref) (all []float32, err error) {
	for _, ref := range refs {
		f, err := m.Floats(ref)
		if err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		all = append(all, f...)
	}
	return all, nil
}
