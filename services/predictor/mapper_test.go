package predictor

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// desk is a mapper of the tests' model, whose layers' experts are on two hosts: those of even
// numbers on "even", the others on "odd" and on "spare".
type desk struct {
	*mapper
	t    *testing.T
	sent chan *nats.Msg
	// number is of the newest step that anything has made.
	number uint64
}

func newDesk(t *testing.T, c Maps) *desk {
	t.Helper()
	d := testdeployment.Open(t)
	c.Capacity = 20
	m, err := newMapper(d, "predictor-1", Config{Distance: 1, Maps: c})
	if err != nil {
		t.Fatal(err)
	}
	desk := &desk{mapper: m, t: t, sent: make(chan *nats.Msg, 100000)}
	sub, err := d.Conn.NATS().ChanSubscribe(d.Subjects.AnyHint(), desk.sent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() }) // fails when the connection is closed
	for _, layer := range m.layers {
		desk.plan(layer)
	}
	return desk
}

func (d *desk) plan(layer int) {
	var even, odd []uint32
	for e := range uint32(d.d.Shape.Experts) {
		if e%2 == 0 {
			even = append(even, e)
		} else {
			odd = append(odd, e)
		}
	}
	l, err := plan.Rules{MoELayers: d.layers, Experts: d.d.Shape.Experts}.Check(&pb.LayerPlan{
		Layer: uint32(layer), Version: 7, Functions: []*pb.Function{plan.Function(layer, even, "even"), plan.Function(layer, odd, "odd", "spare")},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.to.plan.Put(planstore.Value{Layer: layer, Plan: l, Revision: 1})
}

// runs are a step's rows: each is a row of one token that was generated.
func runs(tenant string, tokens ...uint32) (out []*pb.Run) {
	for _, id := range tokens {
		out = append(out, &pb.Run{Sequence: "s", Tokens: []uint32{id}, Phase: pb.Phase_PHASE_DECODE, Tenant: tenant})
	}
	return out
}

func (d *desk) step(number uint64, runs ...*pb.Run) {
	d.hear(d.t.Context(), heard{step: &pb.Step{Version: schemas.Version, Model: d.d.Identity.Model, Owner: "attention-1", Epoch: 3, Step: number, Runs: runs}})
}

// pass sends rows that follow from a seed to the gate of a layer, and returns the
// probabilities and the experts that it makes of the first.
func (d *desk) pass(number uint64, layer, n int, seed uint64) (probabilities []float32, chosen []int32) {
	d.t.Helper()
	h := rows(d.d, seed, n)
	h.Key.Step, h.Key.Layer = number, uint32(layer)
	d.hear(d.t.Context(), heard{rows: h})
	x := make([]float32, n*d.d.Shape.Hidden)
	if err := tensor.Decode(x, h.Tensor, d.d.Shape.Hidden); err != nil {
		d.t.Fatal(err)
	}
	var routes forward.Routes
	probabilities = make([]float32, n*d.d.Shape.Experts)
	if err := d.router.Probabilities(layer, x, probabilities); err != nil {
		d.t.Fatal(err)
	}
	if err := d.router.Route(layer, x, &routes); err != nil {
		d.t.Fatal(err)
	}
	return probabilities[:d.d.Shape.Experts], routes.Expert[:routes.K]
}

// hints are those that were sent so far, by host, checked as hosts check them.
func (d *desk) hints() map[string][]*pb.Hint {
	d.t.Helper()
	if err := d.d.Conn.NATS().Flush(); err != nil {
		d.t.Fatal(err)
	}
	limits := loads.HintLimits{Model: d.d.Identity.Model, Experts: d.d.Shape.Experts, MoE: d.d.Shape.MoE}
	all := map[string][]*pb.Hint{}
	for len(d.sent) > 0 {
		m := <-d.sent
		h, err := limits.Decode(m.Data)
		if err != nil {
			d.t.Fatal(err)
		}
		host := schemas.LastToken(m.Subject)
		all[host] = append(all[host], h)
	}
	return all
}

// wanted are the experts of a layer that hints want loaded.
func wanted(all []*pb.Hint, layer int) (experts []int32) {
	for _, h := range all {
		for _, l := range h.Layers {
			for _, u := range l.Unit[:l.Wanted] {
				if int(l.Layer) == layer {
					experts = append(experts, int32(u))
				}
			}
		}
	}
	slices.Sort(experts)
	return experts
}

// A row like an earlier one has its experts foretold: those of the first layer by what it
// begins with, those of the next by its first gate; each to all hosts that serve it.
func TestForetells(t *testing.T) {
	d := newDesk(t, Maps{})
	first, second := d.layers[0], d.layers[1]
	d.step(1, runs("a", 5)...)
	d.pass(1, first, 1, 11)
	d.pass(1, second, 1, 12)
	if all := d.hints(); len(all) > 0 {
		t.Errorf("nothing is known, and hosts are told %v", all)
	}
	d.step(2, runs("a", 5)...)
	at := func(parity int, chosen []int32) (of []int32) {
		for _, e := range slices.Sorted(slices.Values(chosen)) {
			if int(e)%2 == parity {
				of = append(of, e)
			}
		}
		return of
	}
	begun := d.hints()
	probabilities, chosen := d.pass(2, first, 1, 11)
	passed := d.hints()
	_, next := d.pass(2, second, 1, 12)
	for parity, host := range map[int]string{0: "even", 1: "odd"} {
		if got := wanted(begun[host], first); !slices.Equal(got, at(parity, chosen)) {
			t.Errorf("%s is told of %v, the first gate chooses %v", host, got, chosen)
		}
		if got := wanted(passed[host], second); !slices.Equal(got, at(parity, next)) {
			t.Errorf("%s is told of %v, the second gate chooses %v", host, got, next)
		}
	}
	for i, h := range begun["odd"] {
		if spare := begun["spare"][i]; !proto.Equal(h.Layers[0], spare.Layers[0]) || h.Reached != 0 || h.Step != 2 || h.Number != 1 {
			t.Errorf("odd is told %v, spare %v", h, spare)
		}
		for j, u := range h.Layers[0].Unit {
			if h.Layers[0].Probability[j] != probabilities[u] {
				t.Errorf("expert %d has the probability %v, the gate says %v", u, h.Layers[0].Probability[j], probabilities[u])
			}
		}
	}
	for _, all := range passed {
		if all[0].Reached != uint32(first)+1 || all[0].Layers[0].PlanVersion != 7 {
			t.Errorf("%v", all[0])
		}
	}
}

// An expert of several hosts of which none holds it is hinted to its home.
func TestHintsGoHome(t *testing.T) {
	l, err := plan.Rules{MoELayers: []int{0}, Experts: 2}.Check(&pb.LayerPlan{
		Functions: []*pb.Function{plan.Function(0, []uint32{0}, "a", "b"), plan.Function(0, []uint32{1}, "a", "b")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for e, home := range []string{"a", "b"} {
		if got := servedBy(l, 2)[e]; !slices.Equal(got, []string{home}) {
			t.Errorf("expert %d: %v, want %s", e, got, home)
		}
	}
}

// What one tenant's rows leave, no other tenant's find, unless they share.
func TestTenantsApart(t *testing.T) {
	for _, shared := range []bool{false, true} {
		d := newDesk(t, Maps{Shared: shared})
		d.step(1, runs("a", 5)...)
		for _, layer := range d.layers {
			d.pass(1, layer, 1, 11)
		}
		d.step(2, runs("b", 5)...)
		if told := len(d.hints()) > 0; told != shared {
			t.Errorf("shared %v: hosts are told %v", shared, told)
		}
	}
}

// Rows whose way is not known whole leave nothing, and what cannot be is refused.
func TestPassesOver(t *testing.T) {
	d := newDesk(t, Maps{})
	kept := func() int { return d.store.Len("a") }
	d.step(1, runs("a", 5)...)
	d.pass(1, d.layers[1], 1, 12) // the first gate was missed
	d.step(2, runs("a", 5)...)
	d.pass(1, d.layers[0], 1, 11) // of the step before
	d.pass(3, d.layers[0], 1, 11) // of one that was not announced
	d.pass(2, d.layers[0], 1, 11)
	d.pass(2, d.layers[0], 1, 13) // a repeat
	if n := kept(); n != 0 {
		t.Errorf("%d maps", n)
	}
	before := testkit.Count(t, d.d.Telemetry.Metrics.Refused)
	d.pass(2, d.layers[0], 2, 11) // more rows than were announced
	d.step(4, runs("a", 1<<30)...)
	if n := testkit.Count(t, d.d.Telemetry.Metrics.Refused) - before; n != 2 {
		t.Errorf("%v are refused", n)
	}
	d.step(5, runs(schemas.CanaryTenant, 5)...)
	d.pass(5, d.layers[0], 1, 11)
	d.pass(5, d.layers[1], 1, 12)
	if n := d.store.Len(schemas.CanaryTenant); n != 0 {
		t.Errorf("canaries have left %d maps", n)
	}
	d.step(4, runs("a", 6)...) // a repeat
	d.step(6, runs("a", 5)...)
	d.pass(6, d.layers[0], 1, 11)
	d.pass(6, d.layers[1], 1, 12)
	if n := kept(); n != 1 {
		t.Errorf("%d maps, want that of step 6", n)
	}
}

// A prompt has the maps that are asked for, and its rows may come in parts.
func TestPrefillMaps(t *testing.T) {
	for kind, want := range map[string]int{"": 1, Mean: 1, Last: 1, Rows: 3} {
		d := newDesk(t, Maps{Prefill: kind})
		run := &pb.Run{Tokens: []uint32{1, 2, 3}, Phase: pb.Phase_PHASE_PREFILL, Tenant: "a"}
		d.step(1, append([]*pb.Run{run}, runs("a", 4)...)...)
		for _, layer := range d.layers {
			h := rows(d.d, 9, 4)
			h.Key.Step, h.Key.Layer = 1, uint32(layer)
			for _, part := range [][2]int{{0, 1}, {1, 4}} {
				d.hear(t.Context(), heard{rows: cutRows(h, part[0], part[1])})
			}
		}
		if n := d.store.Len("a"); n != want+1 {
			t.Errorf("%q: %d maps, want %d", kind, n, want+1)
		}
		d.step(2, run)
		if all := d.hints(); len(all) == 0 {
			t.Errorf("%q: no host is told", kind)
		}
	}
}

// Of a prompt maps foretell the layer that is the distance ahead; where hosts may follow hints for nearer layers alone,
// all up to there.
func TestNearest(t *testing.T) {
	for chances, want := range map[string]bool{OfMaps: false, Learned: true} {
		d := newDesk(t, Maps{Chances: chances})
		d.config.Distance = 2
		run := &pb.Run{Tokens: []uint32{1}, Phase: pb.Phase_PHASE_PREFILL, Tenant: "a"}
		for number := range uint64(2) {
			d.step(number+1, run)
			d.hints() // by what the prompt begins with
			d.pass(number+1, d.layers[0], 1, 11)
			told := d.hints()
			if got := len(wanted(told["even"], d.layers[1]))+len(wanted(told["odd"], d.layers[1])) > 0; got != (want && number > 0) {
				t.Errorf("%s, step %d: the next layer is foretold: %v", chances, number+1, got)
			}
			d.pass(number+1, d.layers[1], 1, 12)
		}
	}
}

func cutRows(h *pb.Hidden, from, to int) *pb.Hidden {
	part := proto.CloneOf(h)
	stride := len(h.Tensor.Data) / int(h.Tensor.Rows)
	part.Key.Part, part.Key.Rows = uint32(from), uint32(to-from)
	part.Tensor.Rows, part.Tensor.Data = uint32(to-from), h.Tensor.Data[from*stride:to*stride]
	return part
}

// With pairs a repeated token is another one behind another token.
func TestPairs(t *testing.T) {
	for _, tc := range []struct {
		embedding string
		tokens    []uint32
		same      bool
	}{{OwnEmbedding, []uint32{2, 5}, true}, {Pair, []uint32{2, 5}, false}, {Pair, []uint32{1, 5}, true}, {Pair, []uint32{5}, false}} {
		d := newDesk(t, Maps{Embedding: tc.embedding})
		follow := func(number uint64, sequence string, tokens ...uint32) (last []float32) {
			for at, id := range tokens {
				d.step(number+uint64(at), &pb.Run{Sequence: sequence, FirstPosition: uint32(at), Tokens: []uint32{id}, Phase: pb.Phase_PHASE_DECODE})
			}
			return d.steps[flowID{"attention-1", 3, 0}].queries[0].embedding
		}
		one, other := follow(1, "x", 1, 5), follow(10, "y", tc.tokens...)
		if slices.Equal(one, other) != tc.same {
			t.Errorf("%s: 5 behind 1 and at the end of %v, the same: %v", tc.embedding, tc.tokens, !tc.same)
		}
	}
}

// A mapper that hangs holds no more than its bound, and no more steps than it may.
func TestMapperBounds(t *testing.T) {
	d := newDesk(t, Maps{})
	for range backlogMessages + 30 {
		d.announced(&pb.Step{Owner: "a"})
	}
	if n := testkit.Count(t, d.d.Telemetry.Metrics.PredictionsLost); n != 30 {
		t.Errorf("%v were dropped", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.run(ctx)
	for i := range mostFlows + 20 {
		d.hear(t.Context(), heard{step: &pb.Step{Owner: "a", Epoch: uint64(i), Runs: runs("a", 1)}})
	}
	if n := len(d.steps); n != mostFlows || d.steps[flowID{"a", 0, 0}] != nil {
		t.Errorf("%d steps", n)
	}
}
