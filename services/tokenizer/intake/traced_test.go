package intake

import (
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/schemas"
)

// Where there are users, a prompt is in the trace that it names if a gateway says so.
func TestTraced(t *testing.T) {
	const secret = "gateways'"
	ours, other := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
	for name, tc := range map[string]struct {
		header nats.Header
		users  bool
		want   bool
	}{
		"without users":               {nats.Header{"traceparent": {ours}}, false, true},
		"of a producer":               {nats.Header{"traceparent": {ours}}, true, false},
		"of a gateway":                {nats.Header{"traceparent": {ours}, schemas.HeaderSeal: {schemas.Seal(secret, "traceparent", ours)}}, true, true},
		"with another one's seal":     {nats.Header{"traceparent": {ours}, schemas.HeaderSeal: {schemas.Seal(secret, "traceparent", other)}}, true, false},
		"sealed by another secret":    {nats.Header{"traceparent": {ours}, schemas.HeaderSeal: {schemas.Seal("", "traceparent", ours)}}, true, false},
		"two, the first one sealed":   {nats.Header{"traceparent": {ours, other}, schemas.HeaderSeal: {schemas.Seal(secret, "traceparent", ours)}}, true, true},
		"two, the second one sealed":  {nats.Header{"traceparent": {other, ours}, schemas.HeaderSeal: {schemas.Seal(secret, "traceparent", ours)}}, true, false},
		"of no trace, sealed":         {nats.Header{"traceparent": {""}, schemas.HeaderSeal: {schemas.Seal(secret, "traceparent", "")}}, true, false},
		"a state without a trace":     {nats.Header{"tracestate": {"a=b"}}, false, false},
		"what is none, without users": {nats.Header{"traceparent": {"00-1-2-01"}}, false, false},
	} {
		tc.header["tracestate"] = []string{"theirs=1"}
		got := trace.SpanContextFromContext(traced(t.Context(), tc.header, secret, tc.users))
		if got.IsValid() != tc.want || got.TraceState().Len() != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
