package remoe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// SharedName is the policy's in plans.
const SharedName = "remoe"

// SharedLayers are hosts' plans of a plan: the first layer with experts is its layer 0. Hosts keep what
// they have where they can.
func SharedLayers(s *serverless.System, p *serverless.Plan, k plan.Known, reason string) []*pb.LayerPlan {
	main, others := besides(k)
	all := make([]*pb.LayerPlan, 0, len(p.Layers))
	for i, number := range k.Model.MoELayers {
		l := &p.Layers[i]
		y := &pb.LayerPlan{Layer: uint32(number), Policy: SharedName, Reason: reasonOf(s, p, l, reason)}
		local, remote := divided(l)
		if len(local) > 0 {
			f := plan.Function(number, local, main)
			f.MemoryBytes, f.Beside = uint64(p.Main), true
			y.Functions = append(y.Functions, f)
		}
		if len(remote) > 0 {
			f := plan.Function(number, remote)
			for _, host := range sharedReplicas(f.Id, k.InForce[number], others, i, l.Replicas) {
				f.Placements = append(f.Placements, &pb.Placement{Host: host, Want: pb.Want_WANT_WARM})
			}
			f.MemoryBytes = uint64(l.Memory)
			y.Functions = append(y.Functions, f)
			y.Division = plan.Access(takes(s, l.Memory))
		}
		all = append(all, y)
	}
	return all
}

// reasonOf tells a layer's plan in a line.
func reasonOf(s *serverless.System, p *serverless.Plan, l *serverless.Layer, why string) string {
	text := fmt.Sprintf("%s: %d of %d experts beside attention, of whose host's %.0f MiB they are", SharedName, s.Experts-l.Size(), s.Experts, p.Main/(1<<20))
	if n := l.Size(); n > 0 {
		text += fmt.Sprintf("; %d on %d replicas of %.0f MiB", n, l.Replicas, l.Memory/(1<<20))
	}
	if why != "" {
		text += "; " + why
	}
	return text
}

func divided(l *serverless.Layer) (local, remote []uint32) {
	for e, away := range l.Remote {
		if away {
			remote = append(remote, uint32(e))
		} else {
			local = append(local, uint32(e))
		}
	}
	return local, remote
}

// besides is the host that stands beside attention, which is the one that does where it is here,
// and those that have functions: the others, or the same where it is alone.
func besides(k plan.Known) (main string, others []string) {
	for _, h := range k.Hosts {
		others = append(others, h.ID)
	}
	slices.Sort(others)
	main = others[0]
	for _, number := range k.Model.MoELayers {
		if host := mainOf(k.InForce[number]); slices.Contains(others, host) {
			main = host
			break
		}
	}
	if len(others) > 1 {
		others = slices.DeleteFunc(others, func(h string) bool { return h == main })
	}
	return main, others
}

// mainOf is the host beside attention of a plan; "" without one.
func mainOf(l *plan.Layer) string {
	if l == nil {
		return ""
	}
	for _, f := range l.Functions {
		if f.Beside && len(f.Placements) > 0 {
			return f.Placements[0].Host
		}
	}
	return ""
}

// sharedReplicas are the hosts of a function: those that have it, and then others, each layer's from
// another one on.
func sharedReplicas(id string, in *plan.Layer, hosts []string, layer, n int) (on []string) {
	for _, p := range in.Function(id).GetPlacements() {
		if slices.Contains(hosts, p.Host) && len(on) < n {
			on = append(on, p.Host)
		}
	}
	for i := range hosts {
		if h := hosts[(layer+i)%len(hosts)]; len(on) < n && !slices.Contains(on, h) {
			on = append(on, h)
		}
	}
	slices.Sort(on)
	return on
}

// takes is what rows take in a function of so much memory, by which gates divide them.
func takes(s *serverless.System, memory float64) divide.Takes {
	const many = 1 << 20
	row := (s.Compute(memory, 2*many) - s.Compute(memory, many)) / many
	return divide.Takes{
		Read: max(0, s.Compute(memory, 1)-s.Functions.CPU.Overhead), Row: row + s.Travel(),
		Unit: s.Functions.CPU.Overhead, Call: s.Overhead(),
	}
}

// SharedPlanOf is the plan that hosts' plans were made of; nil where they were made of none, or are of
// a system with other sizes.
func SharedPlanOf(s *serverless.System, k plan.Known) *serverless.Plan {
	if len(k.Model.MoELayers) != s.Layers {
		return nil
	}
	p := &serverless.Plan{}
	for _, number := range k.Model.MoELayers {
		in := k.InForce[number]
		if in == nil || in.GetPolicy() != SharedName {
			return nil
		}
		l := serverless.Layer{Remote: make([]bool, s.Experts), Memory: s.Sizes()[len(s.Sizes())-1], Replicas: 1}
		for _, f := range in.Functions {
			if f.Beside {
				p.Main = cmp.Or(p.Main, float64(f.MemoryBytes))
				continue
			}
			l.Memory, l.Replicas = float64(f.MemoryBytes), min(max(1, len(f.Placements)), s.Replicas)
			for _, e := range f.Experts {
				l.Remote[e] = true
			}
		}
		if !slices.Contains(s.Sizes(), l.Memory) {
			return nil
		}
		p.Layers = append(p.Layers, l)
	}
	if p.Main == 0 {
		p.Main = s.Main[0]
	}
	if !slices.Contains(s.Main, p.Main) {
		return nil
	}
	return p
}
