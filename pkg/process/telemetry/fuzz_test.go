package telemetry

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// A trace that a message's headers name is written again as it was, and anything else
// is none.
func FuzzExtract(f *testing.F) {
	for _, s := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "ff-0-0-01", "", "00--"} {
		f.Add(s, "a=b")
	}
	f.Fuzz(func(t *testing.T, parent, state string) {
		ctx := Propagator{}.Extract(t.Context(), nats.Header{"traceparent": {parent}, "tracestate": {state}})
		out := nats.Header{}
		Propagator{}.Inject(ctx, out)
		written := Traceparent(ctx)
		if values := out["traceparent"]; len(values) > 0 && values[0] != written {
			t.Errorf("%q and %q", values, written)
		}
		link, ok := LinkTo(written)
		if ok != (written != "") {
			t.Errorf("%q is written as %q, which is a link: %v", parent, written, ok)
		}
		if ok && (!link.SpanContext.TraceID().IsValid() || Traceparent(Propagator{}.Extract(t.Context(), nats.Header{"traceparent": {written}})) != written) {
			t.Errorf("%q is written as %q", parent, written)
		}
	})
}
