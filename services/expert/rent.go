package expert

import (
	"context"

	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// rent tells a device that is rented what its functions of a layer have by a plan. What the plan
// wants elsewhere keeps what it had: rows come for it until gates have gone over.
func (s *Service) rent(l *plan.Layer) {
	s.rentForBatches(l)
	on, rented := s.device.(*paced.Rented)
	if !rented {
		return
	}
	var all []paced.Rental
	for _, f := range l.Functions {
		if f.MemoryBytes > 0 && plan.WantOn(f, s.id) != 0 {
			all = append(all, paced.Rental{Experts: f.Experts, Memory: float64(f.MemoryBytes), Beside: f.Beside})
		}
	}
	if len(all) > 0 {
		on.Rent(int(l.Layer), all)
	}
}

// rentForBatches is rent where functions are invoked for batches.
func (s *Service) rentForBatches(l *plan.Layer) {
	if s.invoked == nil {
		return
	}
	for _, f := range l.Functions {
		if f.MemoryBytes > 0 && plan.WantOn(f, s.id) != 0 {
			s.invoked.Rent(int(l.Layer), f.Id, float64(f.MemoryBytes))
		}
	}
}

// mayPlan waits until the host may plan where no scaler does; false when ctx ends before. Where
// experts are rented the first plan is a scaler's: hosts that spread them evenly would start
// containers for nothing.
func (s *Service) mayPlan(ctx context.Context) bool {
	if s.config.Rent == nil {
		return true
	}
	select {
	case <-s.first:
		return true
	case <-ctx.Done():
		return false
	}
}
