package expert

import (
	"errors"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func lacksMemory(c notWarm) bool {
	var refused *device.RefusedError
	return errors.As(c.err, &refused) || outOfMemory(c)
}

func outOfMemory(c notWarm) bool { return errors.Is(c.err, device.ErrOutOfMemory) }

// needs is the experts that a plan gives to this host, and their bytes.
func (s *Service) needs(p *planstore.Plan) (experts int, bytes int64) {
	counted := map[forward.ExpertID]bool{}
	for layer, f := range functionsOn(p.Layers, s.id) {
		for _, e := range f.Experts {
			id := forward.ExpertID{Layer: layer, Expert: int(e)}
			if n, err := s.device.Size(id); err == nil && !counted[id] {
				counted[id] = true
				bytes += n
			}
		}
	}
	return len(counted), bytes
}

// fits says whether the budget holds a plan once what it does not want is gone.
func (s *Service) fits(p *planstore.Plan) bool {
	_, need := s.needs(p)
	budget := s.device.Memory().Budget
	return budget == 0 || need <= budget
}

// refusal is what the planner has to know of functions that are not warm: nil
// if the next try may find the memory that they lack.
func (s *Service) refusal(p *planstore.Plan, cold []notWarm) *pb.Refusal {
	memory := s.device.Memory()
	room := memory.Budget
	switch {
	case slices.ContainsFunc(cold, outOfMemory):
		room = memory.Used
	case !slices.ContainsFunc(cold, lacksMemory) || s.fits(p):
		return nil
	}
	experts, need := s.needs(p)
	return &pb.Refusal{PlanVersion: p.Version(), Experts: uint32(experts), NeedBytes: uint64(need), RoomBytes: uint64(room)}
}

// refuse tells the planner, by the host's entry among the members, and the log.
func (s *Service) refuse(r *pb.Refusal) {
	if s.presence.SetRefused(r) {
		s.presence.Add("plans_refused_total", 1)
		s.d.Logger.Error("plan does not fit on this host; raise --expert-memory or add a host",
			"version", r.PlanVersion, "experts", r.Experts, "need_bytes", r.NeedBytes, "room_bytes", r.RoomBytes)
	}
}
