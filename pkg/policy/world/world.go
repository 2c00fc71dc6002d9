package world

import (
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// World is what is known at one moment. Observe changes it; policies only read it.
type World struct {
	// Now is the time of the newest event, in seconds of whatever clock.
	Now float64
	// Hosts are in ascending order of their ids. Everything else names a host by its place
	// in this list.
	Hosts []Host
	// Layers are those that have units, in ascending order of their numbers.
	Layers []Layer
	// Takes is what an access takes on a host, the messages of its rows included.
	Takes cost.Device
	// CV is the operator's threshold up to which the replicas of a layer count as balanced.
	CV float64
	// Due are the layers, by their places in Layers, that are to be decided on now.
	Due []int
	// Waiting are the requests that have no row in any step yet (see Backlog). Queued is in
	// which part of the last 20 s there was one, or a fifth of the part of the last second,
	// whichever is more: 0 to 1.
	Waiting, Queued float64

	index map[string]int // of Hosts
	told  float64        // when Waiting was
	means [len(spans)]mean
}

// Host is a place for units.
type Host struct {
	ID string
	// Tiers hold units, the fastest first: units compute from that one.
	Tiers []Tier
	// Health says what may be asked of it.
	Health Health
}

// Tier is memory of one kind.
type Tier struct {
	// Bytes are those that it holds; 0 is no limit.
	Bytes uint64
	// Link is how units come into it.
	cost.Link
}

// Health is how a host is.
type Health uint8

// The healths.
const (
	// Well takes everything.
	Well Health = iota
	// Throttles computes slowly: rows pass it by where another host has their unit.
	Throttles
	// Full keeps what it has, and takes nothing more.
	Full
	// Gone has nothing, and takes nothing.
	Gone
)

// Layer is one layer with its units.
type Layer struct {
	Number int
	Units  []Unit
	// Demand are the rows that come for units, by source.
	Demand []Demand
	// Held is what hosts hold of the layer, or load.
	Held []Held
	// Room are the bytes that the layer's units may take on each host, those of Held
	// included.
	Room []uint64
	// Spare are the replicas beyond each unit's first that may be.
	Spare int
}

// Unit is a unit with its size.
type Unit struct {
	unit.Unit
	Bytes uint64
}

// Source is by whose word rows come.
type Source uint8

// The sources, the surest for what comes next first.
const (
	Predicted Source = iota // by a predictor, for the next step
	Counted                 // by gates, in the last seconds
	Recent                  // by gates, since the decision before
)

// Demand is what comes for a layer's units.
type Demand struct {
	Source Source
	// Rows are those of one step, by the unit's place in the layer.
	Rows []float64
}

// Held is a unit, by its place in its layer, that a host holds or loads.
type Held struct{ Unit, Host int }

// Rows are those of a layer's units in a step, by the surest source; nil where nobody has
// told. They are the world's own.
func (l *Layer) Rows() (rows []float64) {
	best := Recent + 1
	for _, d := range l.Demand {
		if d.Source < best {
			best, rows = d.Source, d.Rows
		}
	}
	return rows
}

// Largest are the bytes of the layer's largest unit.
func (l *Layer) Largest() (bytes uint64) {
	for _, u := range l.Units {
		bytes = max(bytes, u.Bytes)
	}
	return bytes
}

// Host is the place of a host in Hosts.
func (w *World) Host(id string) (at int, here bool) {
	at, here = w.index[id]
	return at, here
}
