// Package plan is the desired state of the expert hosts: which experts form a
// function, and which hosts run it. It is pure; services write and watch it.
package plan

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// FunctionID is a hash of a layer and a set of experts: the same set has the
// same subject and consumer group in every plan.
func FunctionID(layer int, experts []uint32) string {
	h := fnv.New64a()
	buf := binary.LittleEndian.AppendUint32(nil, uint32(layer))
	for _, e := range slices.Sorted(slices.Values(experts)) {
		buf = binary.LittleEndian.AppendUint32(buf, e)
	}
	_, _ = h.Write(buf) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// Same says whether two plans ask for the same, whatever their versions.
func Same(a, b []*pb.LayerPlan) bool {
	return slices.EqualFunc(a, b, func(x, y *pb.LayerPlan) bool {
		return x.Layer == y.Layer && slices.EqualFunc(x.Functions, y.Functions, func(f, g *pb.Function) bool {
			return f.Id == g.Id && slices.Equal(f.Hosts, g.Hosts)
		})
	})
}
