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
	// Dequant is how the stored elements become numbers.
	Dequant Dequant
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
)

// at is the reference with layer and expert in its name.
func (t TensorRef) at(ref Ref) TensorRef {
	name := strings.Replace(t.Name, "{l}", strconv.Itoa(ref.Layer), 1)
	t.Name = strings.Replace(name, "{e}", strconv.Itoa(ref.Expert), 1)
	return t
}

// names are those of the stored tensors that the reference needs.
func (t TensorRef) names() []string {
	switch t.Dequant {
	case MXFP4:
		return []string{t.Name + "_blocks", t.Name + "_scales"}
	case FP8Blocks:
		return []string{t.Name, t.Name + "_scale_inv"}
	}
	return []string{t.Name}
}
