package attention

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/control/directives"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// A replica that predicts asks gates now and then, for each phase, what a step accesses, at threshold
// 1 as well; its other steps have no stamp there.
func TestAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &dimmer{config: Brownout{Predictive: true}, obeyed: directives.NewObeyed(func(error) {}), meter: directives.NewMeter(1, "attention-1", 1)}
		if got := m.Now(false); got.Order != nil {
			t.Errorf("%v without a directive", got.Order.Stamp)
		}
		d := &pb.Directive{Version: 1, Strategy: pb.Strategy_STRATEGY_FULL, PrefillMillionths: brownout.One, DecodeMillionths: brownout.One}
		m.obeyed.Put(directives.Written{Directive: d, Revision: 1})
		m.obeyed.Renewed()
		time.Sleep(directives.CurveEvery)
		for _, tc := range []struct {
			prompt bool
			after  time.Duration
			asks   bool
		}{
			{false, 0, true}, {false, 0, false}, {true, 0, true}, {true, 0, false}, {false, directives.CurveEvery, true}, {true, 0, true},
		} {
			time.Sleep(tc.after)
			got := m.Now(tc.prompt)
			if asks := got.Order != nil; asks != tc.asks || asks && (got.Order.Stamp.Points != directives.Points || got.Order.Stamp.DecodeMillionths != brownout.One) {
				t.Errorf("%+v: %v", tc, got.Order)
			}
		}
		below := later(d, 500_000)
		m.obeyed.Put(directives.Written{Directive: below, Revision: 2})
		first := m.Now(false)
		if second := m.Now(false); first.Order == nil || first.Order != second.Order || first.Order.Stamp.Points != 0 || first.Order.Stamp.DecodeMillionths != 500_000 {
			t.Errorf("%v, then %v", first.Order, second.Order)
		}
		lower := later(below, 500_000)
		lower.PrefillMillionths = 300_000
		m.obeyed.Put(directives.Written{Directive: lower, Revision: 3})
		for ofPrompt, want := range map[bool]uint32{false: 500_000, true: 300_000} { // rows of answers beside a prompt are degraded as it is
			if s := m.Now(ofPrompt).Order.Stamp; s.DecodeMillionths != want || s.PrefillMillionths != 300_000 {
				t.Errorf("of a prompt %v: %v", ofPrompt, s)
			}
		}
		m.Step(engine.Stepped{Rows: 3, Took: time.Second, Curve: []uint32{1, 2}, Millionths: 9})
		m.Step(engine.Stepped{Prefill: true, Took: time.Second})
		m.Wait(engine.Waiting{Busy: true, Coming: 5})
		l := m.meter.Take()
		if len(l.Curves) != 1 || l.Curves[0].Rows != 3 || l.Curves[0].Millionths != 9 || len(l.PrefillSeconds) != 1 || len(l.DecodeSeconds) != 1 || l.ComingRows != 5 {
			t.Errorf("%v is told", l)
		}
	})
}

// later is the next directive, with another threshold.
func later(d *pb.Directive, decode uint32) *pb.Directive {
	return &pb.Directive{Version: d.Version + 1, Strategy: d.Strategy, PrefillMillionths: d.PrefillMillionths, DecodeMillionths: decode}
}

// What a step asks and tells of a brownout at threshold 1.
func BenchmarkThreshold1(b *testing.B) {
	m := &dimmer{obeyed: directives.NewObeyed(func(error) {}), meter: directives.NewMeter(1, "attention-1", 1)}
	m.obeyed.Put(directives.Written{Directive: &pb.Directive{Version: 1, Strategy: pb.Strategy_STRATEGY_FULL, PrefillMillionths: brownout.One, DecodeMillionths: brownout.One}, Revision: 1})
	for i := range b.N {
		if m.Now(false).Order != nil {
			b.Fatal("rows are stamped")
		}
		m.Step(engine.Stepped{Rows: 3, Took: time.Millisecond})
		m.Wait(engine.Waiting{Busy: true})
		if i%16 == 0 {
			m.meter.Take() // as it is told, a quarter of a second later
		}
	}
}
