// Package plan is the desired state of the expert hosts: which experts form a
// function, and what is wanted of which host. It says what a legal plan is, and
// which functions a gate uses under it. It is pure; services write and watch it.
package plan

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Routed is the kind of functions that have the model's own experts.
const Routed = pb.FunctionKind_FUNCTION_KIND_ROUTED

// United is the kind of functions that have united experts.
const United = pb.FunctionKind_FUNCTION_KIND_UNITED

// The transfer modes of functions.
const (
	Pipelined = pb.TransferMode_TRANSFER_MODE_PIPELINED
	Indirect  = pb.TransferMode_TRANSFER_MODE_INDIRECT
	Direct    = pb.TransferMode_TRANSFER_MODE_DIRECT
)

// FunctionID is a hash of a layer, a set of experts and a kind: the same have the
// same subject and consumer group in every plan.
func FunctionID(layer int, experts []uint32, kind pb.FunctionKind) string {
	return IDOf(layer, &pb.Function{Experts: experts, Kind: kind})
}

// IDOf is the id of a function by what it has: its kind, way, bundle and experts, however its
// rows reach it.
func IDOf(layer int, f *pb.Function) string {
	experts, kind := f.GetExperts(), f.GetKind()
	h := fnv.New64a()
	buf := binary.LittleEndian.AppendUint32(nil, uint32(layer))
	for _, e := range slices.Sorted(slices.Values(experts)) {
		buf = binary.LittleEndian.AppendUint32(buf, e)
	}
	if kind != Routed { // whose ids are in running systems
		buf = append(binary.LittleEndian.AppendUint32(buf, uint32(kind)), 'k')
		buf = binary.LittleEndian.AppendUint32(buf, f.GetWay())
		buf = binary.LittleEndian.AppendUint64(buf, f.GetBundle())
	}
	_, _ = h.Write(buf) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// Function makes a function of the model's own experts that is wanted warm on
// some hosts, or cold on purpose if there are none.
func Function(layer int, experts []uint32, warmOn ...string) *pb.Function {
	f := &pb.Function{Id: FunctionID(layer, experts, Routed), Kind: Routed, Experts: experts}
	for _, h := range warmOn {
		f.Placements = append(f.Placements, &pb.Placement{Host: h, Want: pb.Want_WANT_WARM})
	}
	return f
}

// UnitedFunction is Function for united experts of a bundle.
func UnitedFunction(layer int, of Bundle, groups []uint32, warmOn ...string) *pb.Function {
	f := Function(layer, groups, warmOn...)
	f.Kind, f.Way, f.Bundle = United, uint32(of.Way), of.ID
	f.Id = IDOf(layer, f)
	return f
}

// WantOn is what a plan wants of a host for a function, WANT_UNSPECIFIED for nothing.
func WantOn(f *pb.Function, host string) pb.Want {
	for _, p := range f.GetPlacements() {
		if p.GetHost() == host {
			return p.GetWant()
		}
	}
	return pb.Want_WANT_UNSPECIFIED
}

// Same says whether two plans of a layer ask for the same, whatever their
// versions, writers and reasons.
func Same(a, b *pb.LayerPlan) bool {
	return a.GetLayer() == b.GetLayer() && sameAccess(a.GetDivision(), b.GetDivision()) && slices.EqualFunc(a.GetFunctions(), b.GetFunctions(), func(f, g *pb.Function) bool {
		return f.GetId() == g.GetId() && f.GetKind() == g.GetKind() && f.GetWay() == g.GetWay() && f.GetBundle() == g.GetBundle() &&
			f.GetTransfer() == g.GetTransfer() && f.GetMinibatch() == g.GetMinibatch() && f.GetMemoryBytes() == g.GetMemoryBytes() && f.GetBeside() == g.GetBeside() && f.GetForetold() == g.GetForetold() && slices.Equal(f.GetExperts(), g.GetExperts()) &&
			slices.EqualFunc(f.GetPlacements(), g.GetPlacements(), samePlacement)
	})
}

// Stands says whether a plan of a layer need not be written again: it asks for what is wanted, and says that it does so
// under the settings that the wanted one says, if that says any.
func Stands(there, wanted *pb.LayerPlan) bool {
	return Same(there, wanted) && (wanted.GetSettings() == nil || proto.Equal(there.GetSettings(), wanted.GetSettings()))
}

func samePlacement(a, b *pb.Placement) bool {
	return a.GetHost() == b.GetHost() && a.GetWant() == b.GetWant()
}
