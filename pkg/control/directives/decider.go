package directives

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Bundle is what a controller knows of the united experts of a way.
type Bundle struct {
	ID uint64
	// Error is what the worst layer loses where united experts stand in for all its experts, as
	// a share of what dropping them would cost.
	Error float64
}

// Settings are how a controller decides.
type Settings struct {
	Rules
	Strategy brownout.Strategy
	Way      int
	// Prefill and Decode are the objectives of steps, in seconds.
	Prefill, Decode float64
	// Paper has thresholds move as algorithm 2 says, and no more; Predictive by what steps to come
	// are predicted to take.
	Paper, Predictive bool

	Exempt []uint32
	// MaxLoss bounds what a layer's outputs lose, as a share; 1: nothing does.
	MaxLoss float64
	// Bundle looks what the united experts of a way are.
	Bundle func(way int) (Bundle, error)
}

func (s Settings) rule(slo float64) brownout.Rule {
	if s.Paper {
		return brownout.Paper(slo)
	}
	return brownout.Steady(slo)
}

// Floor returns the lowest threshold, in millionths, at which a layer loses no more than a share
// where a degraded row's loss is such a share of it.
func Floor(maxLoss, each float64) int {
	if maxLoss >= each || maxLoss >= 1 {
		return 0
	}
	return int(math.Ceil(brownout.One * (1 - maxLoss/each)))
}

// The phases, as indexes, and as they are called.
const (
	prefill = 0
	decode  = 1
)

var phaseNames = [2]string{"prefill", "decode"}

// Phase is what a decider knows of a phase, for metrics.
type Phase struct {
	Threshold int     // millionths
	Latency   float64 // the P90 that it decided by, in seconds; 0: none
}

// decider decides on directives. Times are seconds that the caller passes.
type decider struct {
	set    Settings
	heard  heard
	phases [2]governor
	ahead  [2]*foresight // the same; nil: they do not predict
	shown  [2]Phase
	missed [2]bool // the objective, at the floor

	wanted  Wanted
	way     int
	bundle  Bundle
	floor   int
	trouble string  // why the way that is wanted is not used
	busy    float64 // until when silence is no idleness
	waited  float64
	reason  string // of what is to be written next
	ignored int
}

func newDecider(s Settings, now float64) (*decider, error) {
	d := &decider{set: s, heard: heard{model: s.Model, from: map[string]*pb.Latencies{}}, wanted: Wanted{Settings: &pb.BrownoutSettings{}}, reason: "begun"}
	for phase, slo := range []float64{s.Prefill, s.Decode} {
		if err := d.govern(phase, s.rule(slo), now); err != nil {
			return nil, fmt.Errorf("the objective of %s: %w", phaseNames[phase], err)
		}
		d.shown[phase].Threshold = brownout.One
	}
	if err := d.use(s.Way); err != nil {
		return nil, err
	}
	return d, nil
}

// govern begins to decide on a phase.
func (d *decider) govern(phase int, r brownout.Rule, now float64) (err error) {
	if !d.set.Predictive {
		d.phases[phase], err = brownout.NewController(r, now)
		return err
	}
	layers := len(d.set.MoELayers) - len(d.set.Exempt)
	d.ahead[phase], err = newForesight(r, phase, float64(2*layers*d.set.Experts), now)
	d.phases[phase] = d.ahead[phase]
	return err
}

// use has united experts of a way stand in.
func (d *decider) use(way int) error {
	each := 1.0
	if d.set.Strategy == brownout.Partial {
		if way > d.set.Experts {
			return fmt.Errorf("a united expert stands in for at most all of a layer's %d experts", d.set.Experts)
		}
		b, err := d.set.Bundle(way)
		if err != nil {
			return err
		}
		d.way, d.bundle, each = way, b, b.Error
	}
	d.floor = Floor(d.set.MaxLoss, each)
	for _, c := range d.phases {
		c.Bound(d.floor)
	}
	return nil
}

// resume goes on from a directive that another controller has left.
func (d *decider) resume(from *pb.Directive, now float64) {
	if from == nil {
		return
	}
	for phase, threshold := range thresholds(from) {
		d.phases[phase].Set(threshold, now)
		d.shown[phase].Threshold = threshold
	}
	d.reason = "taken over from " + from.Writer
}

func thresholds(d *pb.Directive) [2]int {
	return [2]int{int(d.GetPrefillMillionths()), int(d.GetDecodeMillionths())}
}

// hear takes in what a replica has measured.
func (d *decider) hear(l *pb.Latencies, now float64) {
	if !d.heard.take(l) {
		d.ignored++
		return
	}
	before := d.absurd()
	for _, s := range l.PrefillSeconds {
		d.phases[prefill].Observe(now, float64(s))
	}
	for _, s := range l.DecodeSeconds {
		d.phases[decode].Observe(now, float64(s))
	}
	for _, c := range l.Curves {
		if f := d.ahead[phaseOf(c)]; f != nil {
			f.see(l.Replica, c, now)
		}
	}
	for _, f := range d.ahead {
		if f != nil {
			f.come(l.Replica, int(l.ComingRows))
		}
	}
	d.ignored += d.absurd() - before
	d.waited = float64(l.WaitedSeconds)
	if l.Busy {
		d.busy = now + 4*MeterEvery.Seconds()
	}
}

func phaseOf(c *pb.StepCurve) int {
	if c.GetPrefill() {
		return prefill
	}
	return decode
}

func (d *decider) absurd() int { return d.phases[prefill].Ignored() + d.phases[decode].Ignored() }

// want takes in what an operator wants.
func (d *decider) want(w Wanted, now float64) {
	if w.Revision == d.wanted.Revision {
		return // the same again
	}
	before := d.mode()
	if d.wanted = w; w.Settings == nil {
		d.wanted.Settings = &pb.BrownoutSettings{}
	}
	d.trouble = ""
	if way := cmp.Or(int(d.wanted.Settings.Way), d.set.Way); d.set.Strategy == brownout.Partial && way != d.way {
		if err := d.use(way); err != nil {
			d.trouble = fmt.Sprintf("; way %d is not used: %v", way, err)
		}
	}
	if d.mode() == pb.BrownoutMode_BROWNOUT_MODE_AUTO && before != d.mode() {
		for phase, c := range d.phases {
			c.Set(d.shown[phase].Threshold, now)
		}
	}
	switch d.mode() {
	case pb.BrownoutMode_BROWNOUT_MODE_OFF:
		d.reason = "an operator turned brownouts off"
	case pb.BrownoutMode_BROWNOUT_MODE_SET:
		d.reason = "an operator set the thresholds"
	default:
		d.reason = "an operator leaves the thresholds to the controller"
	}
}

func (d *decider) mode() pb.BrownoutMode {
	return cmp.Or(d.wanted.Settings.GetMode(), pb.BrownoutMode_BROWNOUT_MODE_AUTO)
}

// decide returns what is to be obeyed from now on, and what the thresholds did. It has no version and
// no writer.
func (d *decider) decide(now float64) (*pb.Directive, [2]brownout.Change) {
	var changes [2]brownout.Change
	var why []string
	for phase, c := range d.phases {
		ch := c.Advance(now, now < d.busy)
		d.shown[phase].Latency = ch.Latency
		if ch.Latency > 0 || ch.Samples == 0 {
			d.missed[phase] = ch.Latency > d.objective(phase) && c.Threshold() <= d.floor
		}
		if d.mode() != pb.BrownoutMode_BROWNOUT_MODE_AUTO {
			continue
		}
		d.shown[phase].Threshold = c.Threshold()
		if changes[phase] = ch; ch.Moved {
			why = append(why, phaseNames[phase]+" "+ch.Reason)
		}
	}
	d.fix()
	if len(why) > 0 {
		d.reason = strings.Join(why, "; ")
		if d.waited > 0 {
			d.reason += fmt.Sprintf("; a first token has been waited for %.1f s", d.waited)
		}
	}
	return d.directive(), changes
}

// fix has the thresholds be those that an operator wants.
func (d *decider) fix() {
	s := d.wanted.Settings
	switch d.mode() {
	case pb.BrownoutMode_BROWNOUT_MODE_OFF:
		d.shown[prefill].Threshold, d.shown[decode].Threshold = brownout.One, brownout.One
	case pb.BrownoutMode_BROWNOUT_MODE_SET:
		d.shown[prefill].Threshold = max(int(s.PrefillMillionths), d.floor)
		d.shown[decode].Threshold = max(int(s.DecodeMillionths), d.floor)
	}
}

func (d *decider) objective(phase int) float64 {
	if phase == prefill {
		return d.set.Prefill
	}
	return d.set.Decode
}

func (d *decider) directive() *pb.Directive {
	out := &pb.Directive{
		Strategy: pb.Strategy(d.set.Strategy), Way: uint32(d.way), Bundle: d.bundle.ID,
		PrefillMillionths: uint32(d.shown[prefill].Threshold), DecodeMillionths: uint32(d.shown[decode].Threshold),
		Exempt: slices.Clone(d.set.Exempt), SettingsRevision: d.wanted.Revision, FloorMillionths: uint32(d.floor),
		Floored: d.set.MaxLoss < 1 && d.mode() == pb.BrownoutMode_BROWNOUT_MODE_AUTO && (d.missed[prefill] || d.missed[decode]),
		Reason:  d.reason + d.trouble,
	}
	if s := d.wanted.Settings; d.mode() == pb.BrownoutMode_BROWNOUT_MODE_SET && min(s.PrefillMillionths, s.DecodeMillionths) < uint32(d.floor) {
		out.Reason += fmt.Sprintf("; --max-loss allows no lower one than %.3f", float64(d.floor)/brownout.One)
	}
	return out
}

// same reports whether a directive asks for what another one does.
func same(a, b *pb.Directive) bool {
	if a == nil || b == nil {
		return a == b
	}
	bare := func(d *pb.Directive) *pb.Directive {
		d = proto.CloneOf(d)
		d.Version, d.Model, d.Writer, d.WriterEpoch, d.Reason = 0, 0, "", 0, ""
		return d
	}
	return proto.Equal(bare(a), bare(b))
}

// Obeyed is the newest directive that an attention replica knows, and how far it still holds.
type Obeyed struct {
	// Illegal hears of a directive whose version does not go up, or that is not allowed here.
	Illegal func(error)
	// Allow is what of a directive is obeyed here (Settings.Allows); nil: all of it.
	Allow func(*pb.Directive) (*pb.Directive, error)

	used  atomic.Pointer[pb.Directive]
	moved atomic.Int64 // when the controller's lease was renewed last, in nanoseconds since begun; 0: never
	begun time.Time

	mu sync.Mutex // of Put alone
}

// NewObeyed knows no directive.
func NewObeyed(illegal func(error)) *Obeyed { return &Obeyed{Illegal: illegal, begun: time.Now()} }

// Follow keeps up with the bucket until ctx ends. In one that was made anew, versions begin again.
func (o *Obeyed) Follow(ctx context.Context, b Bucket) {
	b.Follow(ctx, func(w *Written, s *Wanted) {
		if w != nil {
			o.Put(*w)
		} else if s == nil {
			o.used.Store(nil)
		}
	})
}

// Put takes in what lies in the bucket. What is no directive, or an earlier one, leaves the one
// before in use.
func (o *Obeyed) Put(w Written) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.used.Load()
	switch d := w.Directive; {
	case d == nil:
	case before != nil && d.Version <= before.Version && d.WriterEpoch <= before.WriterEpoch:
		o.Illegal(stale(before.Version, d.Version))
	default:
		if o.Allow != nil {
			var err error
			if d, err = o.Allow(d); err != nil {
				o.Illegal(err)
			}
		}
		o.used.Store(d) // nil: rows have their own experts until an allowed one comes
	}
}

// Allows returns what a replica with these settings obeys of directives, whoever has written them: no other strategy
// and united experts than its own, no lower threshold than its bound on losses leaves, and nothing in the
// layers that it exempts. The caller calls one at a time.
func (s Settings) Allows() func(*pb.Directive) (*pb.Directive, error) {
	bundles := map[uint32]Bundle{}
	return func(d *pb.Directive) (*pb.Directive, error) {
		if d.Strategy != pb.Strategy(s.Strategy) {
			return nil, fmt.Errorf("%w: its strategy is %v, and this replica's %v", ErrIllegal, brownout.Strategy(max(0, min(d.Strategy, 255))), s.Strategy)
		}
		each := 1.0
		if s.Strategy == brownout.Partial {
			b, known := bundles[d.Way]
			if !known {
				var err error
				if b, err = s.Bundle(int(d.Way)); err != nil {
					return nil, fmt.Errorf("%w: %w", ErrIllegal, err)
				}
				bundles[d.Way] = b
			}
			if b.ID != d.Bundle {
				return nil, fmt.Errorf("%w: its united experts of way %d are %016x, and this replica's %016x", ErrIllegal, d.Way, d.Bundle, b.ID)
			}
			each = b.Error
		}
		floor := uint32(Floor(s.MaxLoss, each))
		out := proto.CloneOf(d)
		out.PrefillMillionths, out.DecodeMillionths = max(d.PrefillMillionths, floor), max(d.DecodeMillionths, floor)
		out.FloorMillionths = max(d.FloorMillionths, floor)
		out.Floored = d.Floored && s.MaxLoss < 1 && min(out.PrefillMillionths, out.DecodeMillionths) <= out.FloorMillionths
		out.Exempt = append(out.Exempt, s.Exempt...)
		slices.Sort(out.Exempt)
		out.Exempt = slices.Compact(out.Exempt)
		return out, nil
	}
}

// Newest returns the directive that holds, or held before thresholds rose without a controller; nil: there
// is none.
func (o *Obeyed) Newest() *pb.Directive { return o.used.Load() }

// Renewed says that a controller has renewed its lease.
func (o *Obeyed) Renewed() { o.moved.Store(max(1, int64(time.Since(o.begun)))) }

// Now returns the directive with the thresholds that hold at this moment; nil: all rows have their
// own experts.
func (o *Obeyed) Now() (d *pb.Directive, prefill, decode uint32) {
	if d = o.used.Load(); d == nil {
		return nil, brownout.One, brownout.One
	}
	rise := o.rise()
	prefill, decode = min(d.PrefillMillionths+rise, brownout.One), min(d.DecodeMillionths+rise, brownout.One)
	if prefill == brownout.One && decode == brownout.One {
		d = nil
	}
	return d, prefill, decode
}

// rise returns what thresholds have risen by since the controller went silent.
func (o *Obeyed) rise() uint32 {
	moved := o.moved.Load()
	if moved == 0 {
		return brownout.One
	}
	silent := time.Since(o.begun) - time.Duration(moved) - lease.TTL
	if silent <= 0 {
		return 0
	}
	idle := brownout.Paper(1)
	windows := min(int(silent.Seconds()/idle.Window), brownout.One/idle.Increment)
	return uint32(windows * idle.Increment)
}
