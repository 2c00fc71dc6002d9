package gate

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// directives are what a gate does with a step's stamp: it hands the rows of cold experts to united
// experts, or to none, and says which. It keeps its buffers; one goroutine uses it.
type directives struct {
	set     *united.Set                          // what the gate knows of united experts; nil: nothing
	grouped atomic.Pointer[map[plan.Bundle]bool] // bundles whose groups are not those of the experts' numbers
	pair    brownout.Pair
	count   [2][]int32   // rows of each expert, by phase
	squares [2][]float64 // Σg² of each expert's rows, by phase; then what handing these over costs
	never   []int32      // and of those whose producers accept no stand-in
	without []bool       // groups whose united expert no host has warm
	phases  []int8       // of each row; -1: it is never degraded
	seen    []bool       // experts, and behind them united ones
	codes   []wire.FateCode
	routes  forward.Routes // what becomes of the gate's
}

// The phases, as indexes; both decisions have the same way and strategy.
const (
	prefillRows = 0
	decodeRows  = 1
	ownRows     = -1
)

// obeyed is where a message's rows go, and what became of their slots.
type obeyed struct {
	// routes are the gate's own where all slots have their own experts. United expert g has the
	// number of routed experts plus g, and is of the bundle.
	routes *forward.Routes
	bundle plan.Bundle
	fates  *pb.Fates // nil: all have their own experts
	codes  []wire.FateCode
	// cold are slots that have their own experts because no host has the united expert warm that
	// they were to have.
	cold int
	// before and after are the experts that have rows without the directives, and with them.
	before, after int
	// curve is how many have rows at each threshold that the stamp asks for.
	curve []uint32
}

// count tells metrics of slots that have not their own experts, or were not to have them.
func (o *obeyed) count(m telemetry.BrownoutMetrics) {
	if o.cold > 0 {
		m.Slots("cold").Add(float64(o.cold))
	}
	if o.before > 0 {
		m.Accesses("before").Add(float64(o.before))
		m.Accesses("after").Add(float64(o.after))
	}
	if o.fates == nil {
		return
	}
	n := [3]int{}
	for _, c := range o.codes {
		n[c]++
	}
	m.Slots("own").Add(float64(n[wire.FateOwn]))
	m.Slots("united").Add(float64(n[wire.FateUnited]))
	m.Slots("left_out").Add(float64(n[wire.FateLeftOut]))
}

// obey follows a message's directives. Without any, or with such that this gate does not know,
// rows go where the gate sent them.
func (d *directives) obey(h *pb.Hidden, routes *forward.Routes, to *plan.Routes, experts int) (o obeyed, err error) {
	o.routes = routes
	s, again := h.Stamp, h.Replay != nil && !h.Replay.Omitted
	parts := s.GetWhole() && h.WholeRows > h.Key.Rows // several, of which this gate sees one
	unknown := s.GetVersion() == 0 || s.Strategy != pb.Strategy_STRATEGY_PARTIAL && s.Strategy != pb.Strategy_STRATEGY_FULL
	stamped := !unknown && !parts
	if !stamped && !again {
		return o, nil
	}
	d.begin(routes)
	if again {
		if o.bundle, err = d.replay(h, to, experts); err != nil {
			return o, err
		}
	}
	if stamped {
		of := plan.Bundle{Way: int(s.Way), ID: s.Bundle}
		if again && o.bundle != (plan.Bundle{}) && o.bundle != of {
			return o, fmt.Errorf("%w: rows that replay united experts of way %d beside a stamp of way %d, of other bundles", wire.ErrMalformed, o.bundle.Way, of.Way)
		}
		o.bundle = of
		if err = d.split(&o, h, to, experts); err != nil {
			return o, err
		}
	}
	o.routes, o.codes = &d.routes, d.codes
	o.before, o.after = d.accesses(routes), d.accesses(&d.routes)
	if o.fates = wire.EncodeFates(wire.FatesShape{Rows: routes.Rows(), Layers: 1, Slots: routes.K}, d.codes); o.fates != nil {
		o.fates.Way, o.fates.Bundle = uint32(o.bundle.Way), o.bundle.ID
	}
	return o, nil
}

// split hands the rows of cold experts over, as a stamp says.
func (d *directives) split(o *obeyed, h *pb.Hidden, to *plan.Routes, experts int) (err error) {
	d.tally(h, experts)
	both := d.settings(h, to, o.bundle, experts)
	if o.curve, err = d.curve(h.Stamp, both); err != nil {
		return err
	}
	made, _, err := d.decide(h.Stamp, both, d.losses(h, o.bundle))
	if err != nil {
		return err
	}
	for row, phase := range d.phases {
		if phase != ownRows {
			d.redirect(row, made[phase])
			o.cold += d.kept(row, made[phase])
		}
	}
	return nil
}

// tally counts rows by expert and phase. Rows of no known phase keep their experts, and those that
// replay have what they had.
func (d *directives) tally(h *pb.Hidden, experts int) {
	routes := &d.routes
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
		*count = reuse.Slice((*count), experts)
		clear(*count)
	}
	for i := range d.squares {
		d.squares[i] = reuse.Slice(d.squares[i], experts)
		clear(d.squares[i])
	}
	for row, phase := range d.phases {
		for at := row * routes.K; at < (row+1)*routes.K; at++ {
			if e := routes.Expert[at]; e != forward.NoExpert && int(e) < experts {
				d.add(phase, e, float64(routes.Weight[at]))
			}
		}
	}
}

// add counts a slot of a phase's rows.
func (d *directives) add(phase int8, expert int32, weight float64) {
	if phase == ownRows {
		d.never[expert]++
		return
	}
	d.count[phase][expert]++
	d.squares[phase][expert] += weight * weight
}

// settings returns how both phases' rows are split.
func (d *directives) settings(h *pb.Hidden, to *plan.Routes, of plan.Bundle, experts int) (both [2]brownout.Settings) {
	s, set := h.Stamp, brownout.Settings{Strategy: brownout.Full, Way: of.Way}
	d.without = d.without[:0]
	if s.Strategy == pb.Strategy_STRATEGY_PARTIAL {
		set.Strategy, set.Without = brownout.Partial, d.missing(to, of, experts)
		set.Grouping, _ = d.grouping(int(h.Key.Layer), of)
	}
	both = [2]brownout.Settings{set, set}
	both[prefillRows].Threshold, both[decodeRows].Threshold = int(s.PrefillMillionths), int(s.DecodeMillionths)
	return both
}

// decide splits both phases' rows, and counts the experts that have any then.
func (d *directives) decide(s *pb.Stamp, both [2]brownout.Settings, losses [2][]float64) (made [2]*brownout.Decision, accesses int, err error) {
	made, accesses, err = d.pair.Split(both, [2]brownout.Rows{{Count: d.count[0], Loss: losses[0]}, {Count: d.count[1], Loss: losses[1]}}, d.never)
	if err != nil {
		err = fmt.Errorf("obeying version %d of the directives: %w", s.Version, err)
	}
	return made, accesses, err
}

// mostPoints bounds the thresholds that a stamp asks for.
const mostPoints = 101

// curve counts the experts that have rows at each threshold that a stamp asks for: of rows of prompts,
// and of answers beside them, if there are any, else of the others.
func (d *directives) curve(s *pb.Stamp, both [2]brownout.Settings) (accesses []uint32, err error) {
	if s.Points < 2 || s.Points > mostPoints {
		return nil, nil
	}
	phase := decodeRows
	if slices.Contains(d.phases, prefillRows) {
		phase = prefillRows
	}
	for i := range int(s.Points) {
		both[phase].Threshold = brownout.PointOf(i, int(s.Points))
		if phase == prefillRows {
			both[decodeRows].Threshold = both[phase].Threshold
		}
		_, n, err := d.decide(s, both, [2][]float64{})
		if err != nil {
			return nil, err
		}
		accesses = append(accesses, uint32(n))
	}
	return accesses, nil
}

// missing returns the groups whose united expert no host has warm: their experts run themselves.
func (d *directives) missing(to *plan.Routes, of plan.Bundle, experts int) []bool {
	known := d.knows(of)
	for g := range plan.Groups(experts, of.Way) {
		_, ok := to.United(of, g)
		d.without = append(d.without, !ok || !known)
	}
	return d.without
}

// members hears of which bundles hosts say that their groups are in the file alone.
func (d *directives) members(all []*pb.Member) {
	grouped := map[plan.Bundle]bool{}
	for _, m := range members.OfService(all, "expert") {
		for _, u := range m.United {
			if u.Grouped {
				grouped[plan.Bundle{Way: int(u.Way), ID: u.Bundle}] = true
			}
		}
	}
	d.grouped.Store(&grouped)
}

// knows reports whether the gate can tell which experts a bundle's groups have.
func (d *directives) knows(of plan.Bundle) bool {
	grouped := d.grouped.Load()
	return d.set.Has(of.Way, of.ID) || grouped == nil || !(*grouped)[of]
}

// grouping is that of a layer by a bundle; false if it is in the file alone, which the gate does not have.
func (d *directives) grouping(layer int, of plan.Bundle) (*brownout.Grouping, bool) {
	if b := d.set.Find(of.Way, of.ID); b != nil {
		return b.Grouping(layer), true
	}
	return nil, d.knows(of)
}

// mostByLoss is the most experts of a layer whose rows are handed over by loss: for 64 deciding takes some
// 5 µs, for 256 half a millisecond.
const mostByLoss = 64

// losses returns what handing each expert's rows over to united ones costs, by phase; none, if the gate does
// not know, or the layer has too many.
func (d *directives) losses(h *pb.Hidden, of plan.Bundle) (both [2][]float64) {
	b := d.set.Find(of.Way, of.ID)
	if b == nil || len(d.never) > mostByLoss || h.Stamp.Strategy != pb.Strategy_STRATEGY_PARTIAL {
		return both
	}
	distances := b.Distances(int(h.Key.Layer))
	for i, squares := range d.squares {
		for e := range squares {
			squares[e] *= distances[e]
		}
		both[i] = squares
	}
	return both
}

// kept returns how many slots of a row have their own experts for want of a warm united one.
func (d *directives) kept(row int, by *brownout.Decision) (n int) {
	k := d.routes.K
	for _, e := range d.routes.Expert[row*k : (row+1)*k] {
		if e >= 0 && int(e) < len(by.Fate) && by.Fate[e] == brownout.Lone && len(d.without) > 0 && d.without[by.Group(int(e))] {
			n++
		}
	}
	return n
}

// accesses counts the experts that have rows.
func (d *directives) accesses(routes *forward.Routes) (n int) {
	clear(d.seen)
	for _, e := range routes.Expert {
		if e < 0 {
			continue
		}
		for int(e) >= len(d.seen) {
			d.seen = append(d.seen, false)
		}
		if !d.seen[e] {
			d.seen[e] = true
			n++
		}
	}
	return n
}

// begin copies what the gate chose: loads are counted by that.
func (d *directives) begin(routes *forward.Routes) {
	d.routes.K = routes.K
	d.routes.Expert = append(d.routes.Expert[:0], routes.Expert...)
	d.routes.Weight = append(d.routes.Weight[:0], routes.Weight...)
	d.codes = reuse.Slice(d.codes, len(routes.Expert))
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
			d.codes[from+i] = wire.FateUnited
		case brownout.Dropped:
			d.codes[from+i] = wire.FateLeftOut
		}
	}
	by.Redirect(d.routes.Expert[from:from+k], d.routes.Weight[from:from+k])
}

// replay sends slots where they went before: of all rows, or beside a stamp of those that are the
// phases' own. Rows wait for united experts that no host has warm.
func (d *directives) replay(h *pb.Hidden, to *plan.Routes, experts int) (of plan.Bundle, err error) {
	codes, err := wire.DecodeFates(h.Replay)
	if err != nil {
		return of, err
	}
	k, first := d.routes.K, 0
	number := func(e int32) (int32, error) {
		if of.Way < 2 || of.Way > experts {
			return 0, fmt.Errorf("%w: replaying slots of united experts of way %d; a layer has %d experts", wire.ErrMalformed, of.Way, experts)
		}
		by, known := d.grouping(int(h.Key.Layer), of)
		if !known {
			return 0, fmt.Errorf("%w: the groups of way %d in bundle %016x, which this gate does not have; start it with --united", errCold, of.Way, of.ID)
		}
		g := by.Group(int(e), of.Way)
		if _, ok := to.United(of, g); !ok {
			return 0, fmt.Errorf("%w: united expert %d of way %d in bundle %016x, which no host has warm", errCold, g, of.Way, of.ID)
		}
		return int32(experts + g), nil
	}
	for _, p := range h.Phases {
		for row := first; row < first+int(p.Rows) && (p.Own || h.Stamp.GetVersion() == 0); row++ {
			from, to := row*k, (row+1)*k
			if !slices.ContainsFunc(codes[from:to], func(c wire.FateCode) bool { return c != wire.FateOwn }) {
				continue
			}
			of = plan.Bundle{Way: int(h.Replay.Way), ID: h.Replay.Bundle}
			copy(d.codes[from:to], codes[from:to])
			if err := wire.FollowFates(codes[from:to], d.routes.Expert[from:to], d.routes.Weight[from:to], number); err != nil {
				return of, err
			}
		}
		first += int(p.Rows)
	}
	return of, nil
}

// errCold says that rows wait for a united expert, which may be on its way.
var errCold = errors.New("rows that were computed before need what is not there")
