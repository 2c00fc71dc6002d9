package expert

import (
	"github.com/switchyard/switchyard/pkg/plan"
)

// Config is what an operator sets.
type Config struct {
	// MemoryBudget bounds the bytes of expert weights on this host; 0 is no limit.
	MemoryBudget uint64
	// Grouping says which experts share a function.
	Grouping plan.Grouping
	// Replicas is how many hosts run each function.
	Replicas int
}
