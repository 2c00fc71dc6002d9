package scaler

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// renting is a renter of a small model that nobody runs, with what it knows.
type renting struct {
	*renter
	t        *testing.T
	known    plan.Known
	applied  uint64 // version of all layers' plans that gates go by
	registry *prometheus.Registry
}

func newRenting(t *testing.T, change func(*Rent)) *renting {
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	const mb = 1 << 20
	spec, layers := m.Spec, deployment.MoELayers(m)
	y := &serverless.System{
		Model: serverless.Model{Layers: len(layers), Experts: spec.Experts, TopK: spec.TopK, Expert: 2 * mb, Fixed: 10 * mb, Token: 512, Cache: 4096},
		Functions: cost.Platform{
			Sizes: []float64{6 * mb, 8 * mb}, PerCPU: cost.GB, CPU: cost.Roofline{Bandwidth: 12e9, Rate: 40e9, ElementBytes: 2}, Threads: 1,
			Container: 0.5, Parameters: cost.Link{Bandwidth: 1e9}, Fixed: 0.0005, Payload: 6 * mb, Prices: cost.Prices{Memory: 16.67e-6},
		},
		Main: []float64{20 * mb, 30 * mb, 40 * mb}, GPU: cost.Roofline{Bandwidth: 1.8e12, Rate: 200e12, ElementBytes: 2}, GPULayer: 1e-4, GPUPrice: 50e-6,
		Switch: cost.Link{Latency: 1e-5, Bandwidth: 25e9}, Network: 1.25e9, Replicas: 2,
	}
	rent := Rent{SharedSettings: remoe.SharedSettings{
		System: y, Plan: remoe.Settings{Step: 1. / 8}, SLO: serverless.SLO{TTFT: 60, TPOT: 5}, Most: 60, Output: 30, Decided: 0.05, Window: 3, Worth: 0.02,
	}}
	change(&rent)
	registry := prometheus.NewRegistry()
	tel := &telemetry.Telemetry{Metrics: telemetry.NewMetrics(registry)}
	of := plan.Model{MoELayers: layers, Experts: spec.Experts, ExpertBytes: 2 * mb}
	p := newPolicy(elastic.DefaultSettings(), elastic.Model{Model: of, TopK: spec.TopK}, nil, tel, slog.New(slog.DiscardHandler))
	p.computed = func() (float64, bool) { return 0, false }
	r := &renting{t: t, registry: registry, known: plan.Known{Model: of, Hosts: []plan.Host{{ID: "a", Budget: 8 * mb}, {ID: "b", Budget: 8 * mb}}}}
	r.renter, err = newRenter(p, &deployment.Deployment{Model: m, Shape: &wire.Shape{}, Telemetry: tel}, rent)
	if err != nil {
		t.Fatal(err)
	}
	p.applied = func(k plan.Known) map[int]uint64 {
		r.divergence() // which does not stand still while the plan is made
		versions := map[int]uint64{}
		for l := range k.InForce {
			versions[l] = r.applied
		}
		return versions
	}
	r.Begin()
	return r
}

func eachOwn(turns *Turns) func(*Rent) {
	return func(r *Rent) { r.Turns, r.Each, r.Window, r.Worth = turns, true, 1, 0 }
}

// plan decides, and has what was decided written as a version; 0: writing fails.
func (r *renting) plan(version uint64) {
	r.t.Helper()
	d, err := r.Plan(r.known)
	if err != nil {
		r.t.Fatal(err)
	}
	if version == 0 {
		return
	}
	r.known.InForce = map[int]*plan.Layer{}
	for _, lp := range d.Layers {
		lp.Version = version
		l, err := plan.Rules{MoELayers: r.known.Model.MoELayers, Experts: r.known.Model.Experts}.Check(lp)
		if err != nil {
			r.t.Fatal(err)
		}
		r.known.InForce[int(lp.Layer)] = l
	}
}

// next has a request wait for its plan whose rows all choose two experts.
func (r *renting) next(id string, prompt, expert int) *turn {
	r.rent.Foretell = func([]uint32) ([]float32, error) {
		a := make([]float32, r.rent.System.Layers*r.rent.System.Experts)
		for i := range a {
			if e := i % r.rent.System.Experts; e/2 == expert/2 {
				a[i] = 0.5
			}
		}
		return a, nil
	}
	t := &turn{id: id, ended: make(chan struct{})}
	r.bills.open(r.t.Context(), id, prompt)
	r.admit(heard{Sequence: &pb.Sequence{RequestId: id, PromptIds: make([]uint32, prompt), MaxTokens: 20}}, t)
	return t
}

func (t *turn) has() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// A request has its own plan when that is written and all gates go by it; where none can be made, it
// goes by the plan in force at once.
func TestTurns(t *testing.T) {
	r := newRenting(t, eachOwn(&Turns{}))
	r.plan(1)
	r.applied = 1
	a := r.next("a", 30, 0)
	r.plan(0)
	r.plan(0) // all gates go by what was written before
	if a.has() {
		t.Fatal("a plan that is not written is in force")
	}
	r.plan(2)
	if r.plan(0); a.has() {
		t.Fatal("no gate goes by the plan")
	}
	r.applied = 2
	if r.plan(0); !a.has() || !a.own || r.turn != nil {
		t.Fatalf("%+v", a)
	}
	main := r.core.Main.Memory
	if q := r.bills.of("a"); q.main != main {
		t.Errorf("it is billed for %v, its plan has %v", q.main, main)
	}
	r.core.SLO.TPOT = 1e-9
	b := r.next("b", 50, 2)
	if r.plan(0); !b.has() || b.own || r.bills.of("b").main != main {
		t.Errorf("without a plan of its own: %+v", b)
	}
	c := r.next("c", 50, 2)
	if r.Begin(); !c.has() || c.own {
		t.Errorf("the planner begins anew: %+v", c)
	}
}

// Plans that come too late are nobody's.
func TestTurnLeft(t *testing.T) {
	r := newRenting(t, eachOwn(&Turns{}))
	r.plan(1)
	r.applied = 1
	a := r.next("a", 30, 2)
	if r.leave(a) || r.turn != nil {
		t.Fatal("it has left for its own plan")
	}
	if r.bills.rent("a", 1); !a.has() {
		t.Error("it waits on")
	}
	r.plan(2)
	r.applied = 2
	if r.plan(0); a.own || r.bills.of("a").main != 1 {
		t.Errorf("%+v, billed for %v", a, r.bills.of("a").main)
	}
}

// Sequences that attention refuses open no bill, and are counted. Of the others the newest count for
// the plan, and wait for nothing; hosts that hold all experts are wanted.
func TestCame(t *testing.T) {
	r := newRenting(t, func(*Rent) {})
	vocab, most := uint32(r.d.Model.Spec.Vocab), r.d.Model.Spec.MaxPositions
	came := func(s *pb.Sequence) {
		body, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		r.came(&nats.Msg{Data: body})
	}
	for _, s := range []*pb.Sequence{
		{RequestId: "a.b", PromptIds: []uint32{1}}, {PromptIds: []uint32{1}}, {RequestId: "a"}, {RequestId: "a", PromptIds: []uint32{1, vocab}},
		{RequestId: strings.Repeat("a", 1<<10), PromptIds: []uint32{1}}, {RequestId: "a", PromptIds: make([]uint32, most+1)},
	} {
		came(s)
	}
	if n := counters(t, r.registry)["switchyard_refused_messages_total"]; n != 6 || len(r.bills.live) != 0 || len(r.heard) != 0 {
		t.Fatalf("%v are refused, %d billed", n, len(r.bills.live))
	}
	for i := range 5 {
		came(&pb.Sequence{RequestId: strconv.Itoa(i), PromptIds: []uint32{vocab - 1}, MaxTokens: 2})
	}
	if len(r.heard) != 3 || r.heard[2].RequestId != "4" || len(r.some) != 1 || len(r.bills.live) != 5 {
		t.Errorf("%d are to be foretold, %d billed: %v", len(r.heard), len(r.bills.live), slices.Collect(maps.Keys(r.bills.live)))
	}
	if r.plan(0); r.work.least != 2 {
		t.Errorf("%d hosts hold all experts", r.work.least)
	}
}
