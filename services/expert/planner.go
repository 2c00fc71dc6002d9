package expert

import (
	"github.com/switchyard/switchyard/pkg/control/planner"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// planner is the one that runs here while no scaler plans.
func (s *Service) planner() *planner.Planner {
	return planner.New(planner.Settings{
		Lease: planner.InBucket(s.d.Leases, s.id, s.presence.Lease()), Members: s.view, Caller: s.presence, Plans: s.d.Plans, Groups: s.d, Records: s.states,
		Model:   plan.Model{MoELayers: s.d.MoELayers(), Experts: s.d.Model.Spec.Experts, ExpertBytes: s.expertBytes},
		YieldTo: "scaler", Logger: s.d.Logger,
	})
}
