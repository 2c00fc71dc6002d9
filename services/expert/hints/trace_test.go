package hints

import (
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// Of each expert that a hint had to have loaded a trace shows the hint, the load, and what came of it; of what was in
// memory, and of steps without a trace, it shows nothing.
func TestTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tel.Record(spans)
	s := newSeat(t, 0, func(with *Settings) { with.Tracer = tel.Tracer("expert", "") })
	hinted := func(step uint64, expert uint32) {
		s.hint(step, 0, 2, 0.5, expert)
		s.await(2, int(expert), device.Warm)
	}
	hinted(1, 0)
	s.rows(1, 2, 0)
	s.rows(2, 0, 0) // until here without a trace
	ctx, gate := tel.Tracer("gate", "").Start(t.Context(), telemetry.SpanGate)
	s.ctx = ctx
	let := s.fake.Faults.Hold(id(3, 1))
	defer let()
	hinted(2, 1)
	s.hint(2, 0, 2, 0.5, 0) // is there
	s.hint(2, 0, 1, 0.5, 2)
	s.await(1, 2, device.Warm)
	s.hint(2, 0, 3, 0.5, 1)
	testkit.Eventually(t, "the load", func() bool { return slices.Contains(s.fake.Faults.Began(), id(3, 1)) })
	s.hint(2, 0, 3, 0.4, 2) // waits for the link
	for layer, expert := range []uint32{0, 0, 1, 1} {
		s.rows(2, uint32(layer), expert)
	}
	let()
	s.await(3, 1, device.Warm)
	testkit.Eventually(t, "the host hears of the load", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, fl := range s.flows {
			return !fl.wants[id(3, 1)].spans.ended.IsZero()
		}
		return false
	})
	s.rows(2, 4, 0)
	gate.End()
	want := []string{"1 2 wasted, loaded", "2 1 used, loaded", "3 1 late, loaded", "3 2 unloaded"}
	if got := shown(t, spans.Ended(), gate.SpanContext().SpanID().String()); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// shown are the prefetches of spans: layer, expert and outcome, and whether there is a load within.
func shown(t *testing.T, all []sdktrace.ReadOnlySpan, parent string) (prefetches []string) {
	t.Helper()
	for _, p := range all {
		if p.Name() != telemetry.SpanPrefetch {
			continue
		}
		if p.Parent().SpanID().String() != parent {
			t.Errorf("%v is not of the gate", p)
		}
		a := attribute.NewSet(p.Attributes()...)
		of := func(key attribute.Key) any { v, _ := a.Value(key); return v.AsInterface() }
		text := fmt.Sprint(of(telemetry.AttrLayer), of(telemetry.AttrExpert)) + fmt.Sprintf(" %v", of(telemetry.AttrOutcome))
		for _, l := range all {
			if l.Name() == telemetry.SpanLoad && l.Parent().SpanID() == p.SpanContext().SpanID() {
				text += ", loaded"
				if l.StartTime().Before(p.StartTime()) || l.EndTime().After(p.EndTime()) {
					t.Errorf("%s from %v to %v, its load from %v to %v", text, p.StartTime(), p.EndTime(), l.StartTime(), l.EndTime())
				}
			}
		}
		prefetches = append(prefetches, text)
	}
	slices.Sort(prefetches)
	return prefetches
}
