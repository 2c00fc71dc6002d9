package attention

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/directives"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// dimmer is an attention replica's part in brownouts: it tells what steps take, obeys
// directives, and is a candidate for writing them. nil has no part.
type dimmer struct {
	d       *deployment.Deployment
	config  Brownout
	replica string
	store   *directives.Store
	obeyed  *directives.Obeyed
	meter   *directives.Meter
	slots   int
	// made is what steps obey, and those with prompts where thresholds are predicted. The engine's
	// goroutine alone uses it.
	made [2]made
	// asked is when gates were asked last what steps access: those of answers alone, those with prompts.
	asked [2]time.Time
}

// made is what steps obey, of a directive: it stays one thing while nothing changes.
type made struct {
	engine.Directive
	from *pb.Directive
}

func newDimmer(d *deployment.Deployment, c Brownout, replica string) *dimmer {
	if c.Strategy == 0 {
		return nil
	}
	rules := d.DirectiveRules()
	obeyed := directives.NewObeyed(rules.Illegal)
	obeyed.Allow = c.settings(d).Allows()
	return &dimmer{
		d: d, config: c, replica: replica, store: directives.New(d.Brownout, rules), obeyed: obeyed,
		meter: directives.NewMeter(d.Identity.Model, replica, rand.Uint64()), slots: len(d.MoELayers()) * d.Model.Spec.TopK,
	}
}

func (m *dimmer) steps() engine.Directives {
	if m == nil {
		return nil
	}
	return m
}

// Now implements engine.Directives. All steps obey one order until it changes, but those of which
// gates are asked what they access.
func (m *dimmer) Now(ofPrompt bool) engine.Directive {
	d, prefill, decode := m.obeyed.Now()
	asks := m.asks(ofPrompt)
	if asks && d == nil {
		d = m.obeyed.Newest()
	}
	if d == nil {
		return engine.Directive{}
	}
	now := m.directive(d, ofPrompt, prefill, decode)
	if asks {
		s := proto.CloneOf(now.Order.Stamp)
		s.Points = directives.Points
		now.Order = &layer.Order{Exempt: now.Order.Exempt, Stamp: s}
	}
	return now
}

// asks reports whether gates are to tell what the step that begins accesses.
func (m *dimmer) asks(ofPrompt bool) bool {
	if !m.config.Predictive {
		return false
	}
	last, now := &m.asked[0], time.Now()
	if ofPrompt {
		last = &m.asked[1]
	}
	if now.Sub(*last) < directives.CurveEvery {
		return false
	}
	*last = now
	return true
}

// directive is what steps obey of what the controller wrote. Where thresholds are predicted, rows of answers
// that share a step with a prompt are degraded as far as the prompt's: else their experts are accessed
// anyway, and lowering the prompt's threshold saves nothing.
func (m *dimmer) directive(d *pb.Directive, ofPrompt bool, prefill, decode uint32) engine.Directive {
	kept := &m.made[0]
	if m.config.Predictive && ofPrompt {
		kept, decode = &m.made[1], min(decode, prefill)
	}
	if kept.from == d && kept.Order.Stamp.PrefillMillionths == prefill && kept.Order.Stamp.DecodeMillionths == decode {
		return kept.Directive
	}
	kept.from, kept.Directive = d, engine.Directive{
		Order: &layer.Order{Exempt: d.Exempt, Stamp: &pb.Stamp{
			Version: d.Version, Strategy: d.Strategy, Way: d.Way, PrefillMillionths: prefill, DecodeMillionths: decode, Whole: true, Bundle: d.Bundle,
		}},
		Share: 1 - float64(d.FloorMillionths)/brownout.One, RowSlots: m.slots,
	}
	return kept.Directive
}

// Step implements engine.Directives.
func (m *dimmer) Step(s engine.Stepped) {
	m.meter.Step(s.Prefill, s.Took)
	if s.Curve != nil {
		m.meter.Curve(&pb.StepCurve{Prefill: s.Prefill, Rows: uint32(s.Rows), Seconds: float32(s.Took.Seconds()), Millionths: s.Millionths, Accesses: s.Curve})
	}
}

// Wait implements engine.Directives.
func (m *dimmer) Wait(w engine.Waiting) { m.meter.Wait(w.Longest, w.Busy, w.Coming) }

// fill tells other services that a brownout may come, and how far it goes.
func (m *dimmer) fill(stats map[string]float64) {
	if m == nil {
		return
	}
	stats[members.Browns] = 1
	d, prefill, decode := m.obeyed.Now()
	if d == nil {
		return
	}
	stats[members.BrownoutPrefill], stats[members.BrownoutDecode] = float64(prefill)/brownout.One, float64(decode)/brownout.One
	if d.Floored {
		stats[members.BrownoutFloored] = 1
	}
}

// run has a replica play its part beside its other tasks.
func (m *dimmer) run(tasks *lifecycle.Tasks, presence *deployment.Presence) {
	if m == nil {
		return
	}
	tasks.Go(func(ctx context.Context) { m.obeyed.Follow(ctx, m.store) })
	tasks.Go(m.followLease)
	tasks.Go(m.tell)
	tasks.Go(func(ctx context.Context) {
		owner := directives.InBucket(m.d.Leases, m.replica, presence.Lease())
		if err := m.controller(owner).Run(ctx); err != nil {
			m.d.Logger.Error("this replica controls no brownouts", "error", err)
		}
	})
}

// followLease notes when a controller renews its lease.
func (m *dimmer) followLease(ctx context.Context) {
	stop, err := directives.FollowLease(m.d.Leases, m.obeyed.Renewed)
	if err != nil {
		m.d.Logger.Warn("no brownout is obeyed here", "error", err)
		return
	}
	defer stop()
	thresholds := m.d.Telemetry.Metrics.Directives.Thresholds.Follow(func() []telemetry.Reading {
		_, prefill, decode := m.obeyed.Now()
		return []telemetry.Reading{{Labels: []string{"prefill"}, Value: float64(prefill) / brownout.One}, {Labels: []string{"decode"}, Value: float64(decode) / brownout.One}}
	})
	defer thresholds()
	<-ctx.Done()
}

// tell publishes what steps have taken until ctx ends.
func (m *dimmer) tell(ctx context.Context) {
	tick := time.NewTicker(directives.MeterEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if l := m.meter.Take(); l != nil {
				m.publish(l)
			}
		}
	}
}

// publish tells what was measured; the next message makes up for one that is lost.
func (m *dimmer) publish(l *pb.Latencies) {
	body, err := proto.Marshal(l)
	if err == nil {
		err = m.d.Conn.Tell(m.d.Subjects.Latencies(), body)
	}
	if err != nil {
		m.d.Logger.Debug("telling what steps take", "error", err)
	}
}

// controller is what this replica does with the lease.
func (m *dimmer) controller(l directives.Lease) *directives.Controller {
	shown, metrics := &atomic.Pointer[[2]directives.Phase]{}, m.d.Telemetry.Metrics.Directives
	return &directives.Controller{
		Settings: m.config.settings(m.d), Lease: l, Bucket: m.store, Logger: m.d.Logger,
		Hear: func(handler func([]byte)) (func(), error) {
			shown.Store(&[2]directives.Phase{})
			p90 := metrics.P90.Follow(func() []telemetry.Reading { return readings(shown.Load()) })
			sub, err := m.d.Conn.Hear(m.d.Subjects.Latencies(), "", func(msg *nats.Msg) { handler(msg.Data) })
			if err != nil {
				p90()
				return nil, err
			}
			return func() { p90(); _ = sub.Unsubscribe() }, nil
		},
		Told: directives.Told{
			Changed: func(phase string, c brownout.Change, before int) {
				direction := "up"
				if c.Threshold < before {
					direction = "down"
				}
				metrics.Changed(phase, direction)
			},
			Phases:  func(prefill, decode directives.Phase) { shown.Store(&[2]directives.Phase{prefill, decode}) },
			Ignored: func(n int) { metrics.Ignored.Add(float64(n)) },
		},
	}
}

func readings(of *[2]directives.Phase) (all []telemetry.Reading) {
	for i, phase := range []string{"prefill", "decode"} {
		if of[i].Latency > 0 {
			all = append(all, telemetry.Reading{Labels: []string{phase}, Value: of[i].Latency})
		}
	}
	return all
}

// settings are how a controller decides.
func (b Brownout) settings(d *deployment.Deployment) directives.Settings {
	s := directives.Settings{
		Rules: d.DirectiveRules(), Strategy: b.Strategy, Way: b.Way, Prefill: b.Prefill.Seconds(), Decode: b.Decode.Seconds(),
		Paper: b.Paper, Predictive: b.Predictive, MaxLoss: b.MaxLoss, Bundle: b.stock(d.Model),
	}
	for _, l := range b.Exempt {
		s.Exempt = append(s.Exempt, uint32(l))
	}
	return s
}
