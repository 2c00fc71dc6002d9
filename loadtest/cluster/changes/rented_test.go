package changes

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// rentedHost is a process with another expert host of a pipeline that rents experts; kill ends its
// connection in the middle of whatever it does.
func rentedHost(t *testing.T, y clustertest.Cluster) (kill func()) {
	t.Helper()
	s, err := clustertest.Settings(t.Context(), clustertest.Open(t, elasticModel), tensor.BF16, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Rented(t)(&s)
	s.Node.Bus.URL = y.URL()
	p := cluster.NewPipeline(s.Node, s.Services, map[string]int{"expert": 1})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, bus.ErrClosed) {
			t.Error(err)
		}
		if err := s.Node.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {
		for _, c := range p.Connections() {
			c.NATS().Close()
		}
	}
}

// Tokens are those of direct calls when experts are rented: beside attention and as functions with
// a replica or two, when the planner is killed, and when a host with replicas is.
func TestRented(t *testing.T) {
	if testkit.Race {
		t.Skip("raced pipelines take long, and other ones here race what hosts, gates and scalers do")
	}
	t.Parallel()
	want := compared.Direct(t, elasticModel, tensor.BF16)
	y := clustertest.Start(t, clustertest.Open(t, elasticModel), clustertest.Hosts(2), clustertest.Context(compared.Positions), clustertest.Rented(t),
		func(s *cluster.Settings) { s.Listen = "127.0.0.1:0" })
	compared.Same(t, y, want.Tokens, "with a replica of each function")
	kill := rentedHost(t, y)
	compared.Compare(t, y, 3, want)
	testkit.Eventually(t, "requests are billed", func() bool {
		return rentedRequests(t, y) >= compared.AtOnce
	})
	killPlanner(y)
	compared.Same(t, y, want.Tokens, "without a planner")
	kill()
	compared.Same(t, y, want.Tokens, "without a replica")
}

// Each request has a plan of its own before it begins, and tokens are those of direct calls; without
// a planner requests go by the plan in force.
func TestRentedEach(t *testing.T) {
	if testkit.Race {
		t.Skip("raced pipelines take long, and other ones here race what hosts, gates and scalers do")
	}
	t.Parallel()
	want := compared.Direct(t, elasticModel, tensor.BF16)
	turns := &scaler.Turns{}
	y := clustertest.Start(t, clustertest.Open(t, elasticModel), clustertest.Hosts(2), clustertest.Context(compared.Positions), clustertest.Rented(t), clustertest.Turns(turns))
	compared.Same(t, y, want.Tokens, "each by its own plan")
	if own, all := turns.Begun(); own == 0 || all < compared.AtOnce {
		t.Errorf("%d of %d requests had their own plans", own, all)
	}
	killPlanner(y)
	compared.Same(t, y, want.Tokens, "without a planner")
}

// What a request's trace says that its rows took of functions' memory is what it is billed for, as are
// the steps that it shows; and a message with more rows than a payload takes is several.
func TestRentedTrace(t *testing.T) {
	if testkit.Race {
		t.Skip("raced pipelines take long, and other ones here race what hosts, gates and scalers do")
	}
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	y := clustertest.Start(t, clustertest.Open(t, elasticModel), clustertest.Hosts(2), clustertest.Context(compared.Positions), clustertest.Rented(t),
		func(s *cluster.Settings) { s.Node.Shared.Telemetry.Record(sdktrace.NewSimpleSpanProcessor(spans)) })
	var bill tracetest.SpanStub
	testkit.Eventually(t, "a request is billed", func() bool { // those before a scaler plans are not
		if _, err := compared.Sampled(t.Context(), compared.Asker(y), 0); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool { bill = s; return s.Name == telemetry.SpanBill })
	})
	took, steps := 0.0, 0.0
	for _, s := range spans.GetSpans() {
		switch {
		case s.SpanContext.TraceID() != bill.SpanContext.TraceID():
		case s.Name == telemetry.SpanExpert:
			took += number(s, telemetry.AttrTook)
		case s.Name == telemetry.SpanStep:
			steps += s.EndTime.Sub(s.StartTime).Seconds()
		}
	}
	rent := y.Settings.Services.Scaler.Rent.System
	gpu, host, functions := number(bill, telemetry.AttrGPUGBs), number(bill, telemetry.AttrHostGBs), number(bill, telemetry.AttrFunctionGBs)
	if functions <= 0 || math.Abs(took-functions) > 1e-3*functions {
		t.Errorf("expert spans took %v GB·s, and the bill has %v", took, functions)
	}
	seconds := host * 1e9 / rent.Main[0]
	if of := rent.GPUMemory(compared.PromptTokens+compared.AnswerTokens-1) * seconds / 1e9; steps > seconds+1e-3 || math.Abs(gpu-of) > 1e-6*of {
		t.Errorf("billed for %v s of the host and %v GB·s of the GPU; steps took %v s", seconds, gpu, steps)
	}
	dollars := rent.GPUPrice*gpu*1e9/cost.GB + rent.Functions.Run((host+functions)*1e9, 1)
	if got := number(bill, telemetry.AttrDollars); math.Abs(got-dollars) > 1e-6*dollars {
		t.Errorf("billed for $ %v, and the parts are %v", got, dollars)
	}
	if counted(t, y, "switchyard_rented_payload_splits_total") == 0 {
		t.Error("no message was split")
	}
}

// number is an attribute of a span.
func number(s tracetest.SpanStub, key attribute.Key) float64 {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.AsFloat64()
		}
	}
	return 0
}

// killPlanner ends the connection of the scaler.
func killPlanner(y clustertest.Cluster) {
	for _, conn := range y.Pipeline.Connections() {
		if strings.HasPrefix(conn.NATS().Opts.Name, "switchyard scaler") {
			conn.NATS().Close()
			<-conn.Closed()
		}
	}
}

// rentedRequests is how many requests the planner has billed.
func rentedRequests(t *testing.T, y clustertest.Cluster) int {
	t.Helper()
	return int(counted(t, y, "switchyard_rented_requests_total"))
}

// counted is a counter without labels of its own.
func counted(t *testing.T, y clustertest.Cluster, name string) float64 {
	t.Helper()
	families, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}
