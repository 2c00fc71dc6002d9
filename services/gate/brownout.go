package gate

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/fates"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// directives are what a gate does with a step's stamp: it hands the rows of cold experts to united
// experts, or to none, and says which. It keeps its buffers; one goroutine uses it.
type directives struct {
	pair    brownout.Pair
	count   [2][]int32 // rows of each expert, by phase
	never   []int32    // and of those whose producers accept no stand-in
	without []bool     // groups whose united expert no host has warm
	phases  []int8     // of each row; -1: it is never degraded
	codes   []fates.Code
	routes  forward.Routes // what becomes of the gate's
}

// The phases, as indexes; both decisions have the same way and strategy.
const (
	prefillRows = 0
	decodeRows  = 1
	ownRows     = -1
)

// obey is where a message's rows go, and what became of their slots. Without directives, or with
// such that this gate does not know, that is where the gate sent them (nil: all their own).
// United expert g has the number of routed experts plus g, and is of the way that is returned.
func (d *directives) obey(h *pb.Hidden, routes *forward.Routes, to *plan.Routes, experts int) (_ *forward.Routes, way int, _ *pb.Fates, _ error) {
	if h.Replay != nil && !h.Replay.Omitted {
		return d.replay(h.Replay, routes, to, experts)
	}
	s := h.Stamp
	parts := s.GetWhole() && h.WholeRows > h.Key.Rows // several, of which this gate sees one
	if s.GetVersion() == 0 || parts || s.Strategy != pb.Strategy_STRATEGY_PARTIAL && s.Strategy != pb.Strategy_STRATEGY_FULL {
		return routes, 0, nil, nil
	}
	d.tally(h, routes, experts)
	made, err := d.decide(s, to, experts)
	if err != nil {
		return nil, 0, nil, err
	}
	d.begin(routes)
	for row, phase := range d.phases {
		if phase != ownRows {
			d.redirect(row, made[phase])
		}
	}
	f := fates.Encode(fates.Shape{Rows: routes.Rows(), Layers: 1, Slots: routes.K}, d.codes)
	if f != nil {
		f.Way, f.Bundle = s.Way, s.Bundle
	}
	return &d.routes, int(s.Way), f, nil
}

// tally counts rows by expert and phase. Rows of no known phase keep their experts.
func (d *directives) tally(h *pb.Hidden, routes *forward.Routes, experts int) {
	d.phases = d.phases[:0]
	for _, p := range h.Phases {
		phase := int8(ownRows)
		switch {
		case p.Own:
		case p.Phase == pb.Phase_PHASE_PREFILL:
			phase = prefillRows
		case p.Phase == pb.Phase_PHASE_DECODE:
			phase = decodeRows
		}
		for range p.Rows {
			d.phases = append(d.phases, phase)
		}
	}
	for len(d.phases) < routes.Rows() {
		d.phases = append(d.phases, ownRows)
	}
	for _, count := range []*[]int32{&d.count[0], &d.count[1], &d.never} {
		*count = slices.Grow((*count)[:0], experts)[:experts]
		clear(*count)
	}
	for row, phase := range d.phases {
		count := d.never
		if phase != ownRows {
			count = d.count[phase]
		}
		for _, e := range routes.Expert[row*routes.K : (row+1)*routes.K] {
			if e != forward.NoExpert {
				count[e]++
			}
		}
	}
}

// decide splits both phases' rows.
func (d *directives) decide(s *pb.Stamp, to *plan.Routes, experts int) (made [2]*brownout.Decision, err error) {
	set := brownout.Settings{Strategy: brownout.Full, Way: int(s.Way)}
	if s.Strategy == pb.Strategy_STRATEGY_PARTIAL {
		set.Strategy, set.Without = brownout.Partial, d.missing(to, int(s.Way), experts)
	}
	both := [2]brownout.Settings{set, set}
	both[prefillRows].Threshold, both[decodeRows].Threshold = int(s.PrefillMillionths), int(s.DecodeMillionths)
	made, _, err = d.pair.Split(both, [2]brownout.Rows{{Count: d.count[0]}, {Count: d.count[1]}}, d.never)
	if err != nil {
		return made, fmt.Errorf("obeying version %d of the directives: %w", s.Version, err)
	}
	return made, nil
}

// missing are the groups whose united expert no host has warm: their experts run themselves.
func (d *directives) missing(to *plan.Routes, way, experts int) []bool {
	d.without = d.without[:0]
	for g := range plan.Groups(experts, way) {
		_, ok := to.United(way, g)
		d.without = append(d.without, !ok)
	}
	return d.without
}

// begin copies what the gate chose: loads are counted by that.
func (d *directives) begin(routes *forward.Routes) {
	d.routes.K = routes.K
	d.routes.Expert = append(d.routes.Expert[:0], routes.Expert...)
	d.routes.Weight = append(d.routes.Weight[:0], routes.Weight...)
	d.codes = slices.Grow(d.codes[:0], len(routes.Expert))[:len(routes.Expert)]
	clear(d.codes)
}

// redirect changes a row's slots, and notes what became of each.
func (d *directives) redirect(row int, by *brownout.Decision) {
	from, k := row*d.routes.K, d.routes.K
	for i, e := range d.routes.Expert[from : from+k] {
		if e == forward.NoExpert {
			continue
		}
		switch by.Fate[e] {
		case brownout.United:
			d.codes[from+i] = fates.United
		case brownout.Dropped:
			d.codes[from+i] = fates.LeftOut
		}
	}
	by.Redirect(d.routes.Expert[from:from+k], d.routes.Weight[from:from+k])
}

// replay sends slots where they went before. Rows wait for united experts that no host has warm.
func (d *directives) replay(f *pb.Fates, routes *forward.Routes, to *plan.Routes, experts int) (*forward.Routes, int, *pb.Fates, error) {
	codes, err := fates.Decode(f)
	if err != nil {
		return nil, 0, nil, err
	}
	d.begin(routes)
	copy(d.codes, codes)
	way := int(f.Way)
	for at, code := range codes {
		switch code {
		case fates.LeftOut:
			d.routes.Expert[at], d.routes.Weight[at] = forward.NoExpert, 0
		case fates.United:
			if way < 2 || way > experts {
				return nil, 0, nil, fmt.Errorf("replaying slots of united experts of way %d; a layer has %d experts", way, experts)
			}
			g := int(routes.Expert[at]) / way
			if _, ok := to.United(way, g); !ok {
				return nil, 0, nil, fmt.Errorf("replaying a slot of united expert %d of way %d: no host has it warm yet", g, way)
			}
			d.stand(at, int32(experts+g))
		}
	}
	return &d.routes, way, f, nil
}

// stand gives a slot to a united expert, or adds its weight to the row's slot that has it already.
func (d *directives) stand(at int, id int32) {
	for j := at - at%d.routes.K; j < at; j++ {
		if d.routes.Expert[j] == id {
			d.routes.Weight[j] += d.routes.Weight[at]
			d.routes.Expert[at], d.routes.Weight[at] = forward.NoExpert, 0
			return
		}
	}
	d.routes.Expert[at] = id
}
