package scaler

import (
	"math"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// counters are those of a registry, by their names and the values of their labels.
func counters(t *testing.T, of *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := of.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			name := f.GetName()
			for _, l := range one.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = one.GetCounter().GetValue()
		}
	}
	return got
}

// A request's bill is of the GPU's and the host's memory for as long as it ran, and of what
// functions took; a request without tokens has none, and one that came before is not known.
func TestBills(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := telemetry.NewMetrics(registry).Rented
	y := &serverless.System{Model: serverless.Model{Fixed: 2e9, Token: 1, Cache: 1}, GPUPrice: 3, Functions: cost.Platform{Prices: cost.Prices{Memory: 1}}}
	b := newBills(y, serverless.SLO{TTFT: 1, TPOT: 0.1}, 4e9, m)
	hear := func(id string, r *pb.Record) { b.hear("switchyard.token.m.0."+id, r, nil) }
	end := func(ttft, total float64) *pb.Record {
		return &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{Timings: &pb.Timings{Queue: 0.5, Ttft: ttft, Total: total}}}}
	}
	token := func(index int32, gbs float64) *pb.Record {
		return &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: index, Cost: &pb.Cost{ExpertGbS: gbs}}}}
	}
	b.open(t.Context(), "a", 10)
	hear("a", token(0, 1))
	hear("a", token(1, 3))
	hear("b", token(0, 7))
	hear("a", end(0.6, 2.5))
	b.open(t.Context(), "c", 10)
	hear("c", end(0.6, 2.5))
	if n := counters(t, registry)["switchyard_rented_requests_total"]; n != 1 || len(b.live) != 0 {
		t.Fatalf("%v requests are billed, %d are under way", n, len(b.live))
	}
	b.open(t.Context(), "d", 10)
	hear("d", token(0, 0))
	hear("d", end(1.2, 1.5))
	got := counters(t, registry)
	const gb = cost.GB
	for name, want := range map[string]float64{
		"switchyard_rented_gb_seconds_total gpu": 2*2 + 1*2, "switchyard_rented_gb_seconds_total host": 2*4 + 1*4, "switchyard_rented_gb_seconds_total functions": 3,
		"switchyard_rented_dollars_total gpu": 3 * 6e9 / gb, "switchyard_rented_dollars_total host": 12e9 / gb, "switchyard_rented_dollars_total functions": 3e9 / gb,
		"switchyard_rented_slo_missed_total ttft": 1, "switchyard_rented_slo_missed_total tpot": 1,
	} {
		if math.Abs(got[name]-want) > 1e-6*want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// A request whose end is never heard gives way to younger ones, which are billed; one that is stored
// again goes on with its bill.
func TestBillsForgotten(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := newBills(&serverless.System{}, serverless.SLO{}, 0, telemetry.NewMetrics(registry).Rented)
	for i := range 2 * mostBilled {
		b.open(t.Context(), strconv.Itoa(i), 1)
		b.open(t.Context(), strconv.Itoa(i), 1)
	}
	const last = "switchyard.token.m.0.16383"
	b.hear(last, &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{}}}, nil)
	b.open(t.Context(), "16383", 1)
	b.hear(last, &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{Timings: &pb.Timings{Total: 1}}}}, nil)
	got := counters(t, registry)
	if len(b.live) != mostBilled-1 || b.order.Len() != mostBilled-1 || got["switchyard_rented_requests_total"] != 1 || got["switchyard_rented_requests_unbilled_total"] != mostBilled {
		t.Errorf("%d are under way; %v", len(b.live), got)
	}
}

// The activation of the last rows follows what gates tell, and forgets.
func TestActivation(t *testing.T) {
	a := newActivation([]int{2, 5}, 4)
	sample := func(layer uint32, expert, rows uint32) *pb.LoadSample {
		return &pb.LoadSample{Layer: layer, Steps: []*pb.StepLoad{{Expert: []uint32{expert}, Count: []uint32{rows}}}}
	}
	if m := a.mean(); m[0] != 0.25 || a.any() {
		t.Errorf("before rows: %v", m)
	}
	a.add(sample(2, 1, 30))
	a.add(sample(2, 3, 10))
	a.add(sample(9, 0, 10))
	if m := a.mean(); m[1] != 0.75 || m[3] != 0.25 || m[0] != 0 || m[4] != 0.25 || a.any() {
		t.Errorf("%v", m)
	}
	a.add(sample(5, 0, manyRows))
	a.add(sample(5, 2, manyRows))
	if m := a.mean(); math.Abs(float64(m[6])-2./3) > 1e-6 || !a.any() {
		t.Errorf("what came first is forgotten by half: %v", m)
	}
	if d := a.divergence(a.mean()); d != 0 {
		t.Errorf("of itself it diverges by %v bits", d)
	}
}
