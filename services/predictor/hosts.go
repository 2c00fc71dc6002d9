package predictor

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// hosts are those that hints go to: of an expert the one that gates send its rows to (plan.Homes),
// or all that serve it where gates choose among them only when the rows are there.
type hosts struct {
	d    *deployment.Deployment
	id   string
	plan *planstore.View

	by   map[int]*served // by layer
	sent map[string]uint64
}

// served are the hosts of each expert of a layer, by a version of its plan.
type served struct {
	version uint64
	by      [][]string
}

func (h *hosts) follow(ctx context.Context) {
	_ = h.d.Plans.FollowInto(ctx, h.plan) // it fails without a bucket only, which the deployment has
}

// of returns the hosts that serve the experts of a layer; nil without a plan.
func (h *hosts) of(layer int) *served {
	l := h.plan.State()[layer].Plan
	if l == nil {
		return nil
	}
	known := h.by[layer]
	if known == nil || known.version != l.Version {
		known = &served{l.Version, servedBy(l, h.d.Shape.Experts)}
		h.by[layer] = known
	}
	return known
}

func servedBy(l *plan.Layer, experts int) [][]string {
	by, homes := make([][]string, experts), plan.Homes(l.LayerPlan)
	for _, f := range l.Functions {
		if f.Kind != plan.Routed {
			continue
		}
		for _, p := range f.Placements {
			if home := homes[f.Id]; p.Want == pb.Want_WANT_KEPT || home != "" && home != p.Host {
				continue
			}
			for _, e := range f.Experts {
				by[e] = append(by[e], p.Host)
			}
		}
	}
	return by
}

// telling is what hosts are told of a step at a time.
type telling struct {
	*hosts
	flow    flowID
	step    uint64
	reached int // layer; -1: none
	layers  map[int]*layerTold
	next    map[int]*layerTold // of the next step
	chosen  []bool             // by expert, of the layer reached; nil: it is not known
}

// layerTold is of each expert of a layer.
type layerTold struct {
	p      []float32 // the largest of all rows
	wanted []bool
}

func (h *hosts) tell(flow flowID, step uint64, reached int) *telling {
	return &telling{hosts: h, flow: flow, step: step, reached: reached, layers: map[int]*layerTold{}, next: map[int]*layerTold{}}
}

// want has an expert loaded ahead, know says how probable it is.
func (t *telling) want(layer, expert int, p float32) { t.of(t.layers, layer).want(expert, p) }
func (t *telling) know(layer, expert int, p float32) { t.of(t.layers, layer).know(expert, p) }

func (t *telling) knowNext(layer, expert int, p float32) { t.of(t.next, layer).know(expert, p) }

func (t *telling) of(layers map[int]*layerTold, layer int) *layerTold {
	l := layers[layer]
	if l == nil {
		n := t.d.Shape.Experts
		l = &layerTold{make([]float32, n), make([]bool, n)}
		layers[layer] = l
	}
	return l
}

func (l *layerTold) want(expert int, p float32) {
	l.know(expert, p)
	l.wanted[expert] = true
}

func (l *layerTold) know(expert int, p float32) { l.p[expert] = max(l.p[expert], p) }

// send tells the hosts. What fails is lost: a later hint says more.
func (t *telling) send(ctx context.Context) error {
	hints := map[string]*pb.Hint{}
	var order []string
	for layer := range t.d.Shape.MoE {
		by := t.hosts.of(layer)
		if by == nil {
			continue
		}
		for _, told := range []map[string]*pb.LayerHint{t.layers[layer].byHost(layer, 0, by), t.passed(layer, by), t.next[layer].byHost(layer, 1, by)} {
			for host, l := range told {
				if hints[host] == nil {
					hints[host] = t.hint()
					order = append(order, host)
				}
				hints[host].Layers = append(hints[host].Layers, l)
			}
		}
	}
	slices.Sort(order)
	var failed error
	for _, host := range order {
		t.sent[host]++
		hints[host].Number = t.sent[host]
		failed = errors.Join(failed, t.d.Conn.Send(ctx, t.d.Subjects.Hint(host), hints[host], nil))
	}
	t.d.Telemetry.Metrics.Maps.Sent(len(order))
	return failed
}

func (t *telling) hint() *pb.Hint {
	return &pb.Hint{
		Version: schemas.Version, Model: t.d.Identity.Model, Predictor: t.id,
		Owner: t.flow.owner, Epoch: t.flow.epoch, Microbatch: t.flow.microbatch, Step: t.step, Reached: uint32(t.reached + 1),
	}
}

// passed returns what each host is told of the layer that the step has reached: 1 of the experts that its rows go to, and 0
// of the others.
func (t *telling) passed(layer int, by *served) map[string]*pb.LayerHint {
	all := map[string]*pb.LayerHint{}
	if layer != t.reached || t.chosen == nil {
		return all
	}
	for e, chosen := range t.chosen {
		p := float32(0)
		if chosen {
			p = 1
		}
		for _, host := range by.by[e] {
			h := all[host]
			if h == nil {
				h = &pb.LayerHint{Layer: uint32(layer), PlanVersion: by.version, Kind: plan.Routed}
				all[host] = h
			}
			h.Unit, h.Probability = append(h.Unit, uint32(e)), append(h.Probability, p)
		}
	}
	return all
}

// byHost returns what each host is told of a layer so many steps ahead, the wanted experts first, of each kind the
// most probable first. Of the step itself a host is told if any of its experts is wanted.
func (l *layerTold) byHost(layer, ahead int, by *served) map[string]*pb.LayerHint {
	all := map[string]*pb.LayerHint{}
	if l == nil {
		return all
	}
	for _, e := range l.order() {
		for _, host := range by.by[e] {
			h := all[host]
			if h == nil && !l.wanted[e] && ahead == 0 {
				continue
			}
			if h == nil {
				h = &pb.LayerHint{Layer: uint32(layer), PlanVersion: by.version, Kind: plan.Routed, StepsAhead: uint32(ahead)}
				all[host] = h
			}
			if l.wanted[e] {
				h.Wanted++
			}
			h.Unit, h.Probability = append(h.Unit, uint32(e)), append(h.Probability, l.p[e])
		}
	}
	return all
}

// order is that of experts in hints.
func (l *layerTold) order() []int {
	order := make([]int, len(l.p))
	for e := range order {
		order[e] = e
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if l.wanted[a] != l.wanted[b] {
			if l.wanted[a] {
				return -1
			}
			return 1
		}
		return cmp.Compare(l.p[b], l.p[a])
	})
	return order
}
