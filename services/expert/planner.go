package expert

import (
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planner"
	"github.com/switchyard/switchyard/pkg/policy/static"
)

// planner is the one that runs here while no other service plans.
func (s *Service) planner() *planner.Planner {
	return planner.New(planner.Settings{
		Lease: planner.InBucket(s.d.Leases, s.id), Members: s.view, Caller: s.presence, Plans: s.d.Plans,
		Policy: static.Plan, Wanted: plan.Settings{Grouping: s.config.Grouping, Replicas: s.config.Replicas},
		Model:     plan.Model{MoELayers: s.d.MoELayers(), Experts: s.d.Model.Spec.Experts, ExpertBytes: s.expertBytes},
		ModelName: s.d.Subjects.Model, Logger: s.d.Logger,
	})
}
