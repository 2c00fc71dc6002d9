package brownout

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// PlanBeside plans united experts, whatever policy plans the routed ones: those of one
// bundle, spread round robin over the hosts that can load them, in the memory that one replica of
// every routed expert leaves. The policy sees hosts with so much less memory, and a plan in force
// without united experts. Where it finds no room then, it plans alone, and none are planned.
//
// They are wanted warm from the start: a brownout is no time to load anything. A united expert
// that fits nowhere is left out: rows stay with the experts of its group.
func PlanBeside(k plan.Known, policy func(plan.Known) (*plan.Decision, error)) (*plan.Decision, error) {
	offer, ok := ChooseBeside(k.Hosts, k.Settings.Way)
	routed := k
	routed.InForce = make(map[int]*plan.Layer, len(k.InForce))
	for l, in := range k.InForce {
		routed.InForce[l] = in.Routed()
	}
	if !ok || k.Model.Experts < offer.Way {
		return policy(routed)
	}
	p := newPlacer(k, offer)
	placed := p.place()
	routed.Hosts = p.left()
	d, err := policy(routed)
	if err != nil {
		routed.Hosts = k.Hosts
		return policy(routed)
	}
	out := &plan.Decision{}
	for _, lp := range d.Layers {
		out.Layers = append(out.Layers, plan.With(lp, p.functions(int(lp.Layer), placed[int(lp.Layer)])))
	}
	return out, nil
}

// ChooseBeside is the united experts that plans have: of a way, or of the largest that hosts have if it is 0; of
// several bundles of it the one that most hosts can load, and then the one of the lowest number.
func ChooseBeside(hosts []plan.Host, way int) (best plan.Offer, ok bool) {
	count := map[plan.Bundle]int{}
	for _, h := range hosts {
		for _, o := range h.United {
			if way == 0 || o.Way == way {
				count[o.Bundle]++
			}
		}
	}
	for _, h := range hosts {
		for _, o := range h.United {
			if n := count[o.Bundle]; n > 0 && (!ok || before(o, best, count)) {
				best, ok = o, true
			}
		}
	}
	return best, ok
}

// before reports whether an offer is chosen before another one. Of one bundle hosts may count other
// bytes: the most count.
func before(a, b plan.Offer, hosts map[plan.Bundle]int) bool {
	return cmp.Or(cmp.Compare(b.Way, a.Way), cmp.Compare(hosts[b.Bundle], hosts[a.Bundle]), cmp.Compare(a.ID, b.ID), cmp.Compare(b.Bytes, a.Bytes)) < 0
}

// placer gives united experts to hosts.
type placer struct {
	k     plan.Known
	offer plan.Offer
	hosts []plan.Host // all, by name; Budget is what is left, if it is bounded
	able  []int       // those that can load them
	spare int         // experts that fit beside one replica of each routed one
}

func newPlacer(k plan.Known, o plan.Offer) *placer {
	p := &placer{k: k, offer: o, spare: -len(k.Model.MoELayers) * k.Model.Experts}
	p.hosts = slices.SortedFunc(slices.Values(k.Hosts), func(a, b plan.Host) int { return cmp.Compare(a.ID, b.ID) })
	for i, h := range p.hosts {
		if slices.ContainsFunc(h.United, func(one plan.Offer) bool { return one.Bundle == o.Bundle }) {
			p.able = append(p.able, i)
		}
		p.spare += p.slots(h.Budget)
	}
	return p
}

func (p *placer) slots(budget uint64) int {
	if budget == 0 {
		return math.MaxInt32
	}
	return int(min(budget/max(1, p.k.Model.ExpertBytes), math.MaxInt32))
}

// place is the host of each united expert that has one, by layer and group.
func (p *placer) place() map[int][]string {
	placed, groups := map[int][]string{}, plan.Groups(p.k.Model.Experts, p.offer.Way)
	for at, layer := range p.k.Model.MoELayers {
		hosts := make([]string, groups)
		for g := range hosts {
			if n := at*groups + g; n < len(p.offer.Without) && p.offer.Without[n] {
				continue
			}
			hosts[g] = p.give(at + g)
		}
		placed[layer] = hosts
	}
	return placed
}

// give takes room for one of the first host from a turn on that has some; "" if none has.
func (p *placer) give(turn int) string {
	for i := range p.able {
		h := &p.hosts[p.able[(turn+i)%len(p.able)]]
		if h.Budget == 0 {
			return h.ID
		}
		if h.Budget <= p.offer.Bytes { // a budget of 0 would be none
			continue
		}
		costs := p.slots(h.Budget) - p.slots(h.Budget-p.offer.Bytes)
		if costs > p.spare {
			continue
		}
		h.Budget -= p.offer.Bytes
		p.spare -= costs
		return h.ID
	}
	return ""
}

// left are the hosts with the memory that is left, in their own order.
func (p *placer) left() []plan.Host {
	budget := map[string]uint64{}
	for _, h := range p.hosts {
		budget[h.ID] = h.Budget
	}
	hosts := slices.Clone(p.k.Hosts)
	for i := range hosts {
		hosts[i].Budget = budget[hosts[i].ID]
	}
	return hosts
}

// functions are a layer's: one a host, or with grouping expert one of each united expert.
func (p *placer) functions(layer int, hosts []string) (fs []*pb.Function) {
	groups, order := map[string][]uint32{}, []string(nil)
	for g, h := range hosts {
		if h == "" {
			continue
		}
		key := h
		if p.k.Settings.Grouping == plan.ByExpert {
			key = fmt.Sprint(g)
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], uint32(g))
	}
	for _, key := range order {
		fs = append(fs, plan.UnitedFunction(layer, p.offer.Bundle, groups[key], hosts[groups[key][0]]))
	}
	return fs
}
