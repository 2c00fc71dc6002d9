package forward

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// mixed returns the layout of tensors of several formats, one below the other. Where some stay codes,
// each is a part of its own; else, or where outputs do not fill panels, they become float32.
func (l layout) mixed(parts []layout) layout {
	if !slices.ContainsFunc(parts, func(p layout) bool { return p.format == cpu.Coded || p.filed }) {
		return l
	}
	for _, p := range parts[:len(parts)-1] {
		if p.n%cpu.PanelWidth != 0 {
			return l
		}
	}
	l.parts = parts
	return l
}

func stackParts(by cpu.Packer, m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	parts := make([]*cpu.Matrix, len(refs))
	for i, ref := range refs {
		var err error
		if parts[i], err = loadAs(by, m, refs[i:i+1], l.parts[i]); err != nil {
			return nil, fmt.Errorf("loading weights: %v: %w", ref, err)
		}
	}
	return cpu.Stack(parts...), nil
}

func stackCoded(by cpu.Packer, m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	w, first := by.Coded(l.n, l.k, l.coding), 0
	for _, ref := range refs {
		if err := m.FillCodes(by, ref, w, first); err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		first += m.Spec.Shape(ref)[0]
	}
	return w, nil
}

// stackGroups packs tensors that the files have in groups.
func stackGroups(by cpu.Packer, m *model.Model, refs []model.Ref, l layout) (*cpu.Matrix, error) {
	all, first := make([]cpu.Groups, len(refs)), make([]int, len(refs)+1)
	for i, ref := range refs {
		var err error
		if all[i], err = m.Groups(ref); err != nil {
			return nil, fmt.Errorf("loading weights: %w", err)
		}
		first[i+1] = first[i] + m.Spec.Shape(ref)[0]
	}
	w, err := by.Groups(l.k, l.format, all...)
	if of := (*cpu.OutputError)(nil); errors.As(err, &of) {
		i := sort.SearchInts(first, of.Output+1) - 1
		err = fmt.Errorf("model %s: loading weights: tensor %q: output %d: %w (%v)", m.Name, m.ScalesName(refs[i]), of.Output-first[i], of.Err, refs[i])
	}
	return w, err
}
