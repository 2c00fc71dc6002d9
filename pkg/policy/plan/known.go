package plan

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Known is all that a policy decides by.
type Known struct {
	Model    Model
	Settings Settings
	// Hosts are those that are here and do not leave.
	Hosts []Host
	// InForce are the layers' plans until now, by layer.
	InForce map[int]*Layer
}

// Decision is what a policy wants: layers with their functions and reasons. What
// else a plan says is its writer's.
type Decision struct {
	Layers []*pb.LayerPlan
}

// Model is what has to be planned.
type Model struct {
	MoELayers []int
	Experts   int
	// ExpertBytes is what an expert takes at most.
	ExpertBytes uint64
}

// Offer is united experts that a host can load.
type Offer struct {
	Bundle
	// Bytes is what one takes of a host's budget at most.
	Bytes uint64
	// Without says which groups have none, those of each layer with experts behind one another;
	// nil: all have one.
	Without []bool
	// Grouped says that which experts a group has is in the bundle alone.
	Grouped bool
}

// Host is a place for experts.
type Host struct {
	ID string
	// Budget is the bytes that it can hold; 0 is no limit.
	Budget uint64
	// United are the united experts that it can load.
	United []Offer
	// Throttles says that its device is slowed, so that rows pass it by where another
	// host has their function.
	Throttles bool
}
