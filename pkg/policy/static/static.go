// Package static is the policy without a control loop: every layer's experts
// spread over the hosts round robin, whatever their load.
package static

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrNoRoom says that the hosts' budgets do not hold all experts.
var ErrNoRoom = errors.New("the expert hosts' memory budgets do not hold the model")

// Plan spreads every layer's experts over its hosts round robin (Deal), skipping
// hosts that are full. An expert that only hosts with throttling devices would have
// gets one more, so that rows can pass these by. The same hosts give the same plan in
// whatever order they are named.
func Plan(k plan.Known) (*plan.Decision, error) {
	room := newRoom(k)
	if len(room.places) == 0 {
		return nil, fmt.Errorf("%w: none of %d hosts holds an expert of %d bytes; give them more --expert-memory", ErrNoRoom, len(k.Hosts), k.Model.ExpertBytes)
	}
	d, reason := &plan.Decision{}, fmt.Sprintf("static: round robin over %d hosts, grouping %s, replicas %d",
		len(room.places), k.Settings.Grouping, k.Settings.Replicas)
	if n := len(room.places) - len(room.cool); n > 0 {
		reason += fmt.Sprintf(", relieving %d that throttle", n)
	}
	deal := DealOf(0, len(k.Model.MoELayers), len(room.places), k.Settings.Grouping)
	if !deal.Whole() {
		reason += fmt.Sprintf(", each layer on about %d of them", deal.Hosts())
	}
	for at, l := range k.Model.MoELayers {
		deal = DealOf(at, len(k.Model.MoELayers), len(room.places), k.Settings.Grouping)
		fs, err := layer(k, l, room, deal)
		if err != nil {
			return nil, err
		}
		d.Layers = append(d.Layers, &pb.LayerPlan{Layer: uint32(l), Functions: fs, Reason: reason})
	}
	return d, nil
}

// layer places each expert on as many hosts as it is to have replicas, and
// groups experts with the same hosts.
func layer(k plan.Known, l int, room *room, deal Deal) ([]*pb.Function, error) {
	wanted := make([][]*pb.Placement, k.Model.Experts)
	for e := range wanted {
		on := room.take(deal, e, k.Settings.Replicas)
		if len(on) == 0 {
			return nil, fmt.Errorf("layer %d, expert %d: %w: %s; give them more --expert-memory, or add a host", l, e, ErrNoRoom, shortOf(k))
		}
		for _, h := range on {
			wanted[e] = append(wanted[e], &pb.Placement{Host: h, Want: pb.Want_WANT_WARM})
		}
	}
	return plan.Group(l, k.Settings.Grouping, wanted), nil
}

// shortOf says what hosts have, and what all experts take.
func shortOf(k plan.Known) string {
	var all uint64
	for _, h := range k.Hosts {
		all += h.Budget
	}
	return fmt.Sprintf("%d hosts have %d bytes, all experts take %d", len(k.Hosts), all, uint64(len(k.Model.MoELayers)*k.Model.Experts)*k.Model.ExpertBytes) //nolint:gosec // counts
}

// room counts what hosts still hold.
type room struct {
	places []place
	cool   []int  // which of them do not throttle
	bytes  uint64 // an expert's
	// spare is how many replicas fit beside the first one of every expert.
	spare int
}

// place is a host that holds experts.
type place struct {
	id                 string
	bounded, throttles bool
	left               uint64
}

func newRoom(k plan.Known) *room {
	r := &room{bytes: max(1, k.Model.ExpertBytes), spare: -len(k.Model.MoELayers) * k.Model.Experts}
	hosts := slices.SortedFunc(slices.Values(k.Hosts), func(a, b plan.Host) int { return cmp.Compare(a.ID, b.ID) })
	for _, h := range hosts {
		bounded := h.Budget > 0
		if bounded && h.Budget < r.bytes {
			continue
		}
		r.places = append(r.places, place{id: h.ID, bounded: bounded, throttles: h.Throttles, left: h.Budget})
		if !h.Throttles {
			r.cool = append(r.cool, len(r.places)-1)
		}
		if !bounded {
			r.spare = math.MaxInt / 2
		}
		r.spare += int(min(h.Budget/r.bytes, math.MaxInt32))
	}
	return r
}

// take gives an expert to the next hosts that have room for it, none if there
// are none. If all of them throttle it has one more that does not.
func (r *room) take(deal Deal, expert, replicas int) (on []string) {
	var at []int
	for i := range r.places {
		if len(at) > 0 && (len(at) >= replicas || r.spare <= 0) {
			break
		}
		if p := deal.Host(expert, i); r.places[p].has(r.bytes) {
			at = r.give(at, p)
		}
	}
	throttles := func(p int) bool { return r.places[p].throttles }
	if p := Relief(at, throttles, func() int { return r.reliever(expert) }); p >= 0 {
		at = r.give(at, p)
	}
	for _, p := range at {
		on = append(on, r.places[p].id)
	}
	slices.Sort(on)
	return on
}

// reliever is a host with room that does not throttle: of the experts of one host each
// another; -1 if there is none.
func (r *room) reliever(expert int) int {
	for i := 0; i < len(r.cool) && r.spare > 0; i++ {
		if p := r.cool[(expert/len(r.places)+i)%len(r.cool)]; r.places[p].has(r.bytes) {
			return p
		}
	}
	return -1
}

func (p *place) has(bytes uint64) bool { return !p.bounded || p.left >= bytes }

// give enters an expert that others have, too, on one more host.
func (r *room) give(on []int, at int) []int {
	p := &r.places[at]
	p.left -= min(p.left, r.bytes)
	r.spare -= min(len(on), 1)
	return append(on, at)
}

const (
	// groups is how many functions all layers have together, as long as all experts stay where
	// they are dealt to; more where there are more hosts, as each has one, or where layers need
	// them for leastHosts. A function is a consumer group: on a host it takes a handful of
	// goroutines and a subscription, and everybody follows its state.
	groups = 1000
	// leastHosts are those of a layer at least, if there are so many: a layer is done when the
	// busiest of them is.
	leastHosts = 8
)

// Deal is the hosts that a layer's experts are dealt to in turn, by their places among all of
// them. Experts of a layer on one host share a function, so that a layer has as many as hosts.
// In a large fleet each layer has a part of the hosts, next to those of the layer before:
// all layers have as many rows, and so need as many hosts, and each host has functions of few
// layers to tell of.
type Deal struct{ from, n, all int }

// DealOf is the deal of a layer, by its place among all layers. Where each expert is a
// function of its own it is all hosts.
func DealOf(layer, layers, hosts int, by plan.Grouping) Deal {
	d, most := Deal{n: hosts, all: hosts}, max(groups, hosts)
	if by == plan.ByExpert || hosts <= max(leastHosts, most/max(1, layers))+1 {
		return d
	}
	d.from = layer * hosts / layers
	d.n = max(leastHosts, (layer*hosts+most)/layers-d.from)
	return d
}

// Whole reports whether it is all hosts.
func (d Deal) Whole() bool { return d.n >= d.all }

// Hosts is how many a layer has.
func (d Deal) Hosts() int { return d.n }

// Host is where an expert goes if it cannot go to so many hosts before: to each of the layer's,
// and then to the others.
func (d Deal) Host(expert, before int) int {
	if before < d.n {
		before = (expert + before) % d.n
	}
	return (d.from + before) % d.all
}

// Policy is the one without a control loop.
func Policy() registry.Policy {
	return registry.Policy{
		Name: plan.Static, About: "one replica of every expert, dealt out to hosts in turn; nothing follows loads",
		Scale: scale.Static,
		Uses:  registry.Live | registry.Simulated | registry.Hosts | registry.Scaling, Serverful: true,
	}
}

// Relief is the host on which an expert is to be, too, so that rows can pass by those that it
// is on: one that pick finds, if their devices all throttle. It is less than 0 where none do,
// or pick has found none.
func Relief(on []int, throttles func(host int) bool, pick func() int) int {
	if len(on) == 0 || slices.ContainsFunc(on, func(h int) bool { return !throttles(h) }) {
		return -1
	}
	return pick()
}
