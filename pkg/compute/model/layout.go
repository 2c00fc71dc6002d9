package model

import (
	"strconv"
	"strings"
)

// TensorRef says how a role's tensor comes from what the files hold.
type TensorRef struct {
	// Name is the stored tensor; {l} and {e} stand for layer and expert.
	Name string
	// Stacked: the stored tensor holds all experts along its first dimension.
	Stacked bool
	// Transposed: a matrix is stored as (inputs, outputs).
	Transposed bool
	// Part is which of the stored outputs are this role's.
	Part Part
	// Flat: a matrix of one row may be stored without that dimension.
	Flat bool
	// Paired: the rows of each head are stored in pairs, those of the first half and of the
	// second that are rotated together. Heads is of how many.
	Paired bool
	Heads  int
	// Dequant is how the stored elements become numbers.
	Dequant Dequant
	// Group is how many inputs share a scale, of those that are packed in int4 or in groups; of these, 0 is cpu.QGroup.
	Group int
}

// Part is number Index of Count equal parts of a tensor's outputs (its rows as
// the role has them): one after the other, or every Count-th where Interleaved.
// Count 0 is the whole tensor.
type Part struct {
	Index, Count int
	Interleaved  bool
}

// Dequant is a kind of quantisation.
type Dequant uint8

// The kinds of quantisation.
const (
	// Plain elements are numbers of the stored dtype.
	Plain Dequant = iota
	// MXFP4 has Name+"_blocks", two 4-bit elements a byte, and Name+"_scales", one
	// exponent per 32 elements.
	MXFP4
	// FP8Blocks has Name and Name+"_scale_inv", one factor per block of 128 by 128.
	FP8Blocks
	// GPTQ has, in place of Name's last part, "qweight", "scales", "qzeros" and "g_idx"; see
	// int4.go.
	GPTQ
	// GPTQ2 is its second version.
	GPTQ2
	// AWQ has "qweight", "scales" and "qzeros".
	AWQ
	// Grouped8 and Grouped4 have Name+"_packed", "_scale" and "_shape"; see grouped.go.
	Grouped8
	Grouped4
)

// at returns the reference with layer and expert in its name.
func (t TensorRef) at(ref Ref) TensorRef {
	name := strings.Replace(t.Name, "{l}", strconv.Itoa(ref.Layer), 1)
	t.Name = strings.Replace(name, "{e}", strconv.Itoa(ref.Expert), 1)
	return t
}

// names returns those of the stored tensors that the reference needs.
func (t TensorRef) names() []string {
	switch t.Dequant {
	case MXFP4:
		return []string{t.Name + "_blocks", t.Name + "_scales"}
	case FP8Blocks:
		return []string{t.Name, t.Name + "_scale_inv"}
	case GPTQ, GPTQ2, AWQ:
		base := strings.TrimSuffix(t.Name, "weight")
		names := []string{base + "qweight", base + "scales", base + "qzeros"}
		if t.Dequant != AWQ {
			names = append(names, base+"g_idx")
		}
		return names
	case Grouped8, Grouped4:
		return t.groupedParts()
	}
	return []string{t.Name}
}
