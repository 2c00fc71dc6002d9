package expert

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Config is what an operator sets.
type Config struct {
	// MemoryBudget bounds the bytes of expert weights on this host; 0 is no limit.
	MemoryBudget uint64
}

// Check refuses a budget that does not hold one expert of a model.
func (c Config) Check(m *model.Model) error {
	one, err := device.Largest(m.Spec, func(id forward.ExpertID) (int64, error) { return forward.ExpertBytes(m, id) })
	if err != nil {
		return err
	}
	if c.MemoryBudget > 0 && c.MemoryBudget < uint64(one) {
		return fmt.Errorf("--expert-memory is %d bytes; an expert of model %s has %d: give at least as much, or 0 for no limit", c.MemoryBudget, m.Name, one)
	}
	return nil
}
