package plan

import (
	"math"
	"math/bits"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Known is all that a policy decides by.
type Known struct {
	Model    Model
	Settings Settings
	// Hosts are those that are here and do not leave.
	Hosts []Host
	// InForce are the layers' plans until now, nil if there are none.
	InForce []*pb.LayerPlan
}

// Decision is what a policy wants, and why.
type Decision struct {
	Layers []*pb.LayerPlan
	Reason string
}

// Model is what has to be planned.
type Model struct {
	MoELayers []int
	Experts   int
	// ExpertBytes is what an expert takes at most.
	ExpertBytes uint64
}

// Host is a place for experts.
type Host struct {
	ID string
	// Budget is bytes; 0 is no limit.
	Budget uint64
	// Refused is the last plan that did not fit there, nil if each did.
	Refused *pb.Refusal
}

// Room is the bytes that plans may give to a host, 0 for no limit; false if it
// holds no expert. What it has refused counts for less than what it has said
// that it may hold.
func (h Host) Room(expertBytes uint64) (room uint64, some bool) {
	r := h.Refused
	if r.GetNeedBytes() == 0 {
		return h.Budget, true
	}
	high, low := bits.Mul64(uint64(r.Experts), min(r.RoomBytes, r.NeedBytes))
	held, _ := bits.Div64(high, low, r.NeedBytes) // experts that have room: at most those asked for
	if held == 0 {
		return 0, false
	}
	if high, room = bits.Mul64(held, expertBytes); high > 0 {
		room = math.MaxUint64
	}
	if h.Budget > 0 {
		room = min(room, h.Budget)
	}
	return room, true
}
