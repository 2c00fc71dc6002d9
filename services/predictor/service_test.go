package predictor

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/predict"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// post is a running predictor, and a gate's consumer beside it.
type post struct {
	*Service
	t    *testing.T
	gate *testdeployment.Received[*pb.Hidden]

	mu      sync.Mutex
	samples []*pb.LoadSample
}

// start starts a predictor; wrap may put something in front of what predicts.
func start(t *testing.T, wrap func(predict.Predictor) predict.Predictor) *post {
	t.Helper()
	d := testdeployment.Open(t)
	p := &post{t: t}
	d.Loads = p
	p.Service = New(d, Config{Distance: 1})
	p.gate = testdeployment.Listen[*pb.Hidden](t, d, bus.Receiver{Stream: d.Streams.Hidden(), Name: "gate", Subject: d.Subjects.AnyHidden()})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		p.work.predictor = wrap(p.work.predictor)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := p.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

// Send is where the samples go.
func (p *post) Send(s *pb.LoadSample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, s)
}

// steps are those predicted so far, with their layers.
func (p *post) steps() (all []*pb.StepLoad, layers []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.samples {
		for _, step := range s.Steps {
			all, layers = append(all, step), append(layers, s.Layer)
		}
	}
	return all, layers
}

func (p *post) publish(subject string, h *pb.Hidden) {
	p.t.Helper()
	if err := p.d.Hop.Send(p.t.Context(), subject, h); err != nil {
		p.t.Fatal(err)
	}
}

// counted is a counter's value.
func (p *post) counted(name string) (n int) {
	p.t.Helper()
	families, err := p.d.Telemetry.Registry.Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	p.t.Fatalf("there is no metric %s", name)
	return 0
}

// rows are hidden rows of a step: one of a prompt, the others decoded.
func rows(d *deployment.Deployment, step uint64, n int) *pb.Hidden {
	x := make([]float32, n*d.Shape.Hidden)
	for i := range x {
		x[i] = float32((i+int(step))%11) - 5
	}
	phases := []*pb.PhaseRange{{Phase: pb.Phase_PHASE_PREFILL, Rows: 1}}
	if n > 1 {
		phases = append(phases, &pb.PhaseRange{Phase: pb.Phase_PHASE_DECODE, Rows: uint32(n - 1)})
	}
	return &pb.Hidden{
		Key: &pb.Key{
			Version: schemas.Version, Model: d.Identity.Model, Owner: "attention-1", Epoch: 3, Step: step, Rows: uint32(n), Aggregator: "aggregator-1",
		},
		Tensor: tensor.Encode(tensor.BF16, x, d.Shape.Hidden, nil), Phases: phases,
	}
}

// Rows for any gate, and for one by name, lead to what the next layer's gate would
// choose for them; a gate gets its rows as without a predictor.
func TestPredicts(t *testing.T) {
	p := start(t, nil)
	const n = 5
	p.publish(p.d.Subjects.Hidden(0), rows(p.d, 1, n))
	p.publish(p.d.Subjects.Gate("gate-1"), rows(p.d, 2, n))
	testkit.Eventually(t, "two predictions", func() bool { all, _ := p.steps(); return len(all) == 2 })
	p.gate.Take(t, 1)
	all, layers := p.steps()
	slices.SortFunc(all, func(a, b *pb.StepLoad) int { return int(a.Step) - int(b.Step) })
	for i, got := range all {
		experts, counts := routed(t, p.d, rows(p.d, uint64(i+1), n))
		if layers[i] != 1 || got.Owner != "attention-1" || got.Epoch != 3 || got.Step != uint64(i+1) || got.Rows != n || got.PrefillRows != 1 || got.Distance != 1 {
			t.Errorf("of layer %d: %v", layers[i], got)
		}
		if !slices.Equal(got.Expert, experts) || !slices.Equal(got.Count, counts) {
			t.Errorf("experts %v get %v, the gate gives %v %v", got.Expert, got.Count, experts, counts)
		}
	}
}

// routed is what layer 1's gate chooses for rows.
func routed(t *testing.T, d *deployment.Deployment, h *pb.Hidden) (experts, counts []uint32) {
	t.Helper()
	r, err := forward.LoadRouter(d.Model, d.Pool)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, int(h.Key.Rows)*d.Shape.Hidden)
	if err := tensor.Decode(x, h.Tensor, d.Shape.Hidden); err != nil {
		t.Fatal(err)
	}
	var to forward.Routes
	if err := r.Route(1, x, &to); err != nil {
		t.Fatal(err)
	}
	load := make([]float64, d.Shape.Experts)
	for _, e := range to.Expert {
		load[e]++
	}
	return rounded(load)
}

// What cannot be used is counted and logged, what need not be is left alone, and
// what comes behind it is predicted from.
func TestRefuses(t *testing.T) {
	p := start(t, nil)
	last := uint32(p.d.MoELayers()[len(p.d.MoELayers())-1])
	refused := 0
	for name, tc := range map[string]struct {
		change  func(h *pb.Hidden)
		refused bool
	}{
		"another model":   {func(h *pb.Hidden) { h.Key.Model++ }, true},
		"another version": {func(h *pb.Hidden) { h.Key.Version++ }, true},
		"no key":          {func(h *pb.Hidden) { h.Key = nil }, true},
		"no tensor":       {func(h *pb.Hidden) { h.Tensor = nil }, true},
		"fewer rows":      {func(h *pb.Hidden) { h.Key.Rows = 3 }, true},
		"no such layer":   {func(h *pb.Hidden) { h.Key.Layer = 1000 }, true},
		"cut":             {func(h *pb.Hidden) { h.Tensor.Data = h.Tensor.Data[1:] }, true},
		"phases":          {func(h *pb.Hidden) { h.Phases = nil }, true},
		"the last layer":  {func(h *pb.Hidden) { h.Key.Layer = last }, false},
		"issued again":    {func(h *pb.Hidden) { h.Key.Attempt = 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := rows(p.d, 1, 2)
			tc.change(h)
			p.publish(p.d.Subjects.Hidden(0), h)
			if tc.refused {
				refused++
			}
		})
	}
	p.publish(p.d.Subjects.Hidden(0), rows(p.d, 9, 1))
	testkit.Eventually(t, "the good one", func() bool { all, _ := p.steps(); return len(all) > 0 })
	if all, _ := p.steps(); len(all) != 1 || all[0].Step != 9 {
		t.Errorf("predicted %v", all)
	}
	if n := p.counted("switchyard_refused_messages_total"); n != refused {
		t.Errorf("%d were refused, want %d", n, refused)
	}
}

// hanging predicts nothing until it is let go.
type hanging struct {
	predict.Predictor
	let chan struct{}
}

func (h hanging) Predict(layer int, x []float32, rows int, load []float64) bool {
	<-h.let
	return h.Predictor.Predict(layer, x, rows, load)
}

// A predictor that hangs keeps no row from a gate, holds no more than its bound,
// and then predicts from the newest.
func TestHangingPredictorDelaysNobody(t *testing.T) {
	let := make(chan struct{})
	p := start(t, func(inner predict.Predictor) predict.Predictor { return hanging{inner, let} })
	const n = 2 * backlogMessages
	for step := range uint64(n) {
		p.publish(p.d.Subjects.Hidden(0), rows(p.d, step, 1))
		p.gate.Take(t, int(step)+1)
	}
	dropped := func() int { return p.counted("switchyard_predictions_dropped_total") }
	testkit.Eventually(t, "the oldest are dropped", func() bool { return dropped() >= n-backlogMessages-1 })
	if all, _ := p.steps(); len(all) > 0 {
		t.Errorf("predicted %v", all)
	}
	close(let)
	testkit.Eventually(t, "the newest is predicted", func() bool {
		all, _ := p.steps()
		return len(all)+dropped() == n && all[len(all)-1].Step == n-1
	})
	if all, _ := p.steps(); len(all) > backlogMessages+1 {
		t.Errorf("%d predictions", len(all))
	}
}
