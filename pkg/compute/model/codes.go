package model

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Published quantised matrices stay codes in memory, from which kernels compute with the very
// numbers of the file, and so with the bits of the decoded matrix:
//
//   - Form says how a tensor's codes are laid out in memory, or that they are not kept; it reads
//     no weights, so budgets know the bytes before.
//   - FillCodes writes them into a matrix of that Coding.
//
// Codes of 4 bits stay so, and those of 6 where rows are rounded. Otherwise those of 5 and 6 bits take 8, where 5.5 to 6.6 are stored with their
// scales. A matrix in int4 becomes float32 where its scales are bf16, where its inputs are in any
// order of groups (desc_act), or where no kernel has groups of its size.

// codings are those of types of GGUF's blocks.
var codings = map[safetensors.DType]cpu.Coding{
	safetensors.Q40: {Bits: 4, Group: 32, Kind: cpu.Steps, Zero: -8},
	safetensors.Q41: {Bits: 4, Group: 32, Kind: cpu.StepsMins},
	safetensors.Q50: {Bits: 8, Group: 32, Kind: cpu.Steps},
	safetensors.Q51: {Bits: 8, Group: 32, Kind: cpu.StepsMins},
	safetensors.Q80: {Bits: 8, Group: 32, Kind: cpu.Steps},
	safetensors.Q4K: {Bits: 4, Group: 32, Kind: cpu.SubStepsMins},
	safetensors.Q5K: {Bits: 8, Group: 32, Kind: cpu.SubStepsMins},
	safetensors.Q6K: {Bits: 6, Group: 16, Kind: cpu.SubSteps},
}

// Form is what there is of a matrix in the files.
type Form struct {
	Tensor // as Stat describes it
	// Coding is how codes are kept in memory, where Coded.
	Coding cpu.Coding
	Coded  bool
	// Grouped is the format of a matrix that is stored in groups, where Filed.
	Grouped cpu.Format
	Filed   bool
}

// Form looks at what there is of a matrix, and reads no weights.
func (m *Model) Form(ref Ref) (f Form, err error) {
	r, err := m.find(ref, m.source.stat)
	if err != nil {
		return f, err
	}
	f.Tensor = r.describe()
	f.Coding, f.Coded = r.coding(m.Spec.QuantShuffled)
	f.Grouped, f.Filed = groupedFormats[r.at.Dequant]
	return f, nil
}

// coding is that of a matrix; shuffled says that inputs of int4 may be in any order of groups.
func (r *resolved) coding(shuffled bool) (c cpu.Coding, ok bool) {
	if len(r.shape) != 2 {
		return c, false
	}
	k := r.shape[1]
	switch {
	case r.at.Dequant == Plain:
		c, ok = codings[r.stored.DType]
	case r.at.Dequant.Int4():
		c = cpu.Coding{Bits: 4, Group: r.at.Group, Kind: cpu.StepsZeros}
		ok = r.scales.DType == safetensors.F16 && (!shuffled || r.at.Group >= k)
	}
	return c, ok && c.Check(k) == nil
}

// FillCodes writes the codes of a matrix, which has a Coding, from output first on; threads of the packer share
// panels. It fails for what is refused of numbers, by the tensor's name.
func (m *Model) FillCodes(by cpu.Packer, ref Ref, into *cpu.Matrix, first int) error {
	r, err := m.load(ref)
	if err != nil {
		return err
	}
	if r.at.Dequant.Int4() {
		err = r.fillInt4(by, into, first)
	} else {
		t := r.tensor()
		err = fillPanels(by, t.Shape[0], first, func(from, to int) error { return fillBlocks(t, into, first, from, to) })
	}
	if err != nil {
		return fmt.Errorf("model %s: %w (%v)", m.Name, err, ref)
	}
	return nil
}

// fillPanels calls fill for the outputs [from, to) of a tensor that each panel has, of a matrix that has the tensor's
// from output first on: outputs of a panel share bytes, so that no two threads may write one.
func fillPanels(by cpu.Packer, outputs, first int, fill func(from, to int) error) error {
	begin := first / cpu.PanelWidth
	panels := (first+outputs+cpu.PanelWidth-1)/cpu.PanelWidth - begin
	errs := make([]error, panels)
	by.Each(panels, func(i int) {
		at := (begin+i)*cpu.PanelWidth - first
		errs[i] = fill(max(0, at), min(outputs, at+cpu.PanelWidth))
	})
	return cmp.Or(errs...)
}

// fillBlocks writes outputs of a panel. It takes a block of each before the next blocks: what is written stays
// in the L1 cache.
func fillBlocks(t Tensor, into *cpu.Matrix, first, from, to int) error {
	elements, _ := t.DType.Block()
	each := t.Shape[1] / elements
	var c safetensors.Codes
	for b := range each {
		for i := from; i < to; i++ {
			if err := c.Read(t.DType, t.Data, i*each+b); err != nil {
				return fmt.Errorf("tensor %q (%s): %w", t.Name, t.DType, err)
			}
			put(&c, codings[t.DType], into, first+i, b*elements, elements)
		}
	}
	return nil
}

// put writes a block of output i, from input k on.
func put(c *safetensors.Codes, as cpu.Coding, into *cpu.Matrix, i, k, elements int) {
	into.SetStep(i, k, c.Step, c.Min)
	if as.Kind == cpu.SubSteps || as.Kind == cpu.SubStepsMins {
		for g := range elements / as.Group {
			into.SetSub(i, k+g*as.Group, c.Subs[g], c.Submins[g])
		}
	}
	if as.Bits > 4 {
		into.SetBytes(i, k, c.Code[:elements])
		return
	}
	for at := 0; at < elements; at += perWord {
		word := uint32(0)
		for j, code := range c.Code[at:][:perWord] {
			word |= uint32(code) << (4 * j)
		}
		into.SetNibbles(i, k+at, word)
	}
}

func (r *resolved) fillInt4(by cpu.Packer, into *cpu.Matrix, first int) error {
	m, err := r.int4()
	if err != nil {
		return err
	}
	for input, g := range m.groups {
		if int(g) != input/r.at.Group {
			return fmt.Errorf("tensor %q: input %d is of group %d, in the order of groups it is of %d: quantization_config must say desc_act", r.order.Name, input, g, input/r.at.Group)
		}
	}
	return fillPanels(by, m.n, first, func(from, to int) error {
		for g := range r.scales.Shape[0] {
			for i := from; i < to; i++ {
				at := g*m.n + i
				into.SetStep(first+i, g*r.at.Group, binary.LittleEndian.Uint16(r.scales.Data[2*at:]), 0)
				into.SetSub(first+i, g*r.at.Group, -int8(m.zeros[at]), 0)
			}
		}
		for k := 0; k < m.k; k += perWord {
			for i := from; i < to; i++ {
				into.SetNibbles(first+i, k, m.inputs(i, k))
			}
		}
		return nil
	})
}

// inputs returns eight codes of an output, from input k on.
func (m *int4Matrix) inputs(output, k int) (word uint32) {
	if m.kind != AWQ {
		return m.word(k/perWord, m.n, output)
	}
	for i := range perWord {
		word |= code(m.word(k+i, m.n/perWord, output/perWord), awqPlace[output%perWord]) << (4 * i)
	}
	return word
}
