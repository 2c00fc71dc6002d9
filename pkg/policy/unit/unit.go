// Package unit names what a host can hold and compute alone: one expert that a gate
// routes rows to, or one united expert that stands in for several of them
// (BrownoutServe). Plans, residency, the meter, the simulator and the policies speak of
// units.
package unit

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
)

// Kind says what a unit is.
type Kind uint8

// The kinds, with the numbers that messages and plans carry; 0 is no kind.
const (
	Routed Kind = 1 // an expert of the checkpoint
	United Kind = 2 // the stand-in for several routed experts
)

var names = map[Kind]string{Routed: "routed", United: "united"}

// ErrKind says that a kind is none that this version knows.
var ErrKind = errors.New("unknown kind of unit")

// Check says what is wrong with a kind.
func (k Kind) Check() error {
	if _, ok := names[k]; !ok {
		return fmt.Errorf("%w: %d; known are %d (routed) and %d (united)", ErrKind, uint8(k), Routed, United)
	}
	return nil
}

func (k Kind) String() string {
	if name, ok := names[k]; ok {
		return name
	}
	return "kind " + strconv.Itoa(int(k))
}

// Unit is one unit of a model.
type Unit struct {
	Layer int
	Kind  Kind
	Index int // among the layer's units of its kind
}

// Expert is a layer's routed expert.
func Expert(layer, index int) Unit { return Unit{Layer: layer, Kind: Routed, Index: index} }

// String is layer/kind/index, as in 3/routed/17.
func (u Unit) String() string { return fmt.Sprintf("%d/%s/%d", u.Layer, u.Kind, u.Index) }

// Compare orders units by layer, then kind, then index.
func Compare(a, b Unit) int {
	return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index))
}
