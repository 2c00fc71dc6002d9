package gate

import (
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Spans say by which plan rows went; the first one under another plan says why.
func TestPlanInTraces(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("")
	p := planTraces{}
	for _, to := range []*plan.Routes{
		{Version: 1}, {Version: 1}, {Version: 2, Plan: &pb.LayerPlan{Version: 3, Reason: "later"}},
		{Version: 3, Plan: &pb.LayerPlan{Version: 3, Reason: "expert 5 is hot"}}, {Version: 3},
		{Version: 4, Plan: &pb.LayerPlan{Version: 4, Reason: "a host came", Traceparent: "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"}},
		{Version: 5, Plan: &pb.LayerPlan{Version: 5, Reason: "a host went", Traceparent: "nonsense"}},
	} {
		_, span := tracer.Start(t.Context(), "gate")
		p.describe(span, 0, to, 4)
		span.End()
	}
	var got []string
	for _, s := range spans.Ended() {
		said := fmt.Sprint(s.Attributes()[0].Value.AsInt64(), s.Attributes()[1].Value.AsInt64())
		for _, e := range s.Events() {
			said += " " + e.Name
			for _, a := range e.Attributes {
				said += fmt.Sprintf(" %s=%v", a.Key, a.Value.AsInterface())
			}
		}
		for _, l := range s.Links() {
			said += " to " + l.SpanContext.SpanID().String()
		}
		got = append(got, said)
	}
	want := []string{"1 4", "1 4", "2 4 plan plan_version=2", "3 4 plan plan_version=3 reason=expert 5 is hot", "3 4",
		"4 4 plan plan_version=4 reason=a host came to 0102030405060708", "5 4 plan plan_version=5 reason=a host went"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
