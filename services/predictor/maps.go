package predictor

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// Maps say what expert maps a predictor keeps.
type Maps struct {
	// Capacity is how many of each tenant, or of all if they are Shared; 0: none.
	Capacity int
	// Prefill is what a prompt's rows in a step have: Mean, Last or Rows; empty is Mean.
	Prefill string
	// Embedding is what stands beside a row's map: OwnEmbedding, or Pair; empty is OwnEmbedding.
	Embedding string
	// Replace says which map goes for a new one; empty is fMoE's rule.
	Replace expertmap.Replacement
	// Chances is what hosts are told of generated rows: OfMaps, or Learned; empty is OfMaps.
	Chances string
	// Shared lets a tenant's rows find the maps of all tenants.
	Shared bool
	// File has the maps that there are at the start, if it is there, and those that there are
	// from time to time; empty: none.
	File string
}

// What a prompt's rows in a step have.
const (
	Mean = "mean" // one map, the mean of theirs
	Last = "last" // that of the last one
	Rows = "rows" // one each
)

// What stands beside a map.
const (
	OwnEmbedding = "rows" // the row's own embedding
	Pair         = "pair" // the same, and a quarter of the one before it
)

// What hosts are told of generated rows.
const (
	OfMaps  = "maps"    // what the map says that is the most alike
	Learned = "learned" // chances of all that is known, each tenant's learned while it is served
)

// settings are those of the maps of a model.
func (m Maps) settings(of *model.Model, distance int) expertmap.Settings {
	s := expertmap.Settings{Model: of.Hash, Capacity: m.Capacity, Distance: distance, Replace: m.Replace, Shared: m.Shared}
	s.Shape = expertmap.Shape{Experts: of.Spec.Experts, TopK: of.Spec.TopK, Embedding: of.Spec.Hidden}
	for _, l := range of.Spec.Layer {
		if l.MoE {
			s.Layers++
		}
	}
	return s
}

// check refuses what cannot be foretold.
func (m Maps) check(of *model.Model, distance int) error {
	if m.Capacity == 0 {
		return nil
	}
	if _, err := expertmap.New(m.settings(of, distance)); err != nil {
		return fmt.Errorf("--maps and --distance: %w", err)
	}
	return nil
}
