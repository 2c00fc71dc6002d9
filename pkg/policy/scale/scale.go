// Package scale decides how many replicas each expert of a layer has: the
// Expert Scaler of MoEless (arXiv:2603.06350, §4.2, algorithm 1) and the
// baselines of its evaluation (§6.1).
//
// A load is a number of routed rows; an expert's load is divided evenly among
// its replicas (§3.3, W(l,e,r) = W(l,e)/R(l,e)). Every expert keeps at least one
// replica here: to let one go is a matter of keep-alive, which knows of time.
package scale

import (
	"cmp"
	"fmt"
	"slices"
)

// Expert is an expert of the layer that is decided on.
type Expert struct {
	ID    uint32
	Load  float64 // rows, predicted or counted
	Bytes uint64  // memory of one replica
}

// Settings bound a decision.
type Settings struct {
	// CV is the threshold V: up to it a layer counts as balanced.
	CV float64
	// MemoryCap bounds the bytes of all replicas beyond each expert's first (M_cap).
	MemoryCap uint64
	// MaxReplicas bounds the replicas of one expert; 0 is no limit. More than
	// there are hosts are of no use.
	MaxReplicas int
}

// Scaled is what is decided for one expert.
type Scaled struct {
	ID       uint32
	Replicas int
	LoadEach float64 // rows of each replica
}

// Decision is what is decided for a layer.
type Decision struct {
	Experts    []Scaled // by id
	CV         float64  // of the loads of all replicas
	AddedBytes uint64   // of the replicas beyond each expert's first
	Reason     string   // with the numbers that caused it
}

// Policy decides on one layer. The same input gives the same decision, in
// whatever order the experts are named; it is one that Check accepts.
type Policy func([]Expert, Settings) Decision

// MostRows is the largest load that is believed: beyond it a float64 does not
// count rows any more.
const MostRows = 1 << 53

// Check says what is wrong with an input.
func Check(experts []Expert, s Settings) error {
	if len(experts) == 0 {
		return fmt.Errorf("there are no experts; a layer has at least one")
	}
	seen := make(map[uint32]bool, len(experts))
	for _, e := range experts {
		if seen[e.ID] {
			return fmt.Errorf("expert %d is named twice; an id stands for one expert", e.ID)
		}
		seen[e.ID] = true
		if !(e.Load >= 0 && e.Load <= MostRows) {
			return fmt.Errorf("expert %d has load %g; it must be 0 to %d rows", e.ID, e.Load, int64(MostRows))
		}
	}
	return s.check()
}

func (s Settings) check() error {
	switch {
	case !(s.CV >= 0):
		return fmt.Errorf("cv_threshold is %g; it must be 0 or above", s.CV)
	case s.MaxReplicas < 0:
		return fmt.Errorf("max_replicas is %d; it must be 1 or above, or 0 for no limit", s.MaxReplicas)
	}
	return nil
}

func byID(experts []Expert) []Expert {
	sorted := slices.Clone(experts)
	slices.SortFunc(sorted, func(a, b Expert) int { return cmp.Compare(a.ID, b.ID) })
	return sorted
}
