package scaler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe/shared"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rent is how to plan for hosts of a serverless platform.
type Rent struct {
	shared.Settings
	// Foretell, if set, gives the activation of a prompt's tokens; else the last rows' does.
	Foretell func(ids []uint32) ([]float32, error)
	// Turns, if set, have each request wait for its own plan.
	Turns *Turns
}

// renter plans by Remoe for all requests that it hears of. It hears of them on core NATS, as
// tokenizers store them for attention and as their logs are written: nothing waits for it, and
// without it the plan stays. What else a planner.Elastic does is the policy's.
//
//	sequence ─▶ foretell ─▶ admit ─▶ plan (select, memory, replicas)
//	token log ─▶ bill
//	loads ─▶ the activation of the last rows
type renter struct {
	*policy
	d      *deployment.Deployment
	rent   Rent
	limits claims.Limits
	rows   *activation

	mu    sync.Mutex // guards the rest; no decision is made with it held
	core  *shared.Planner
	bills bills
	asked trace.SpanContext // of the newest request that no decision has heard of
	turn  *turn             // the request that waits for its plan; nil: none does
}

func newRenter(p *policy, d *deployment.Deployment, r Rent) (*renter, error) {
	core, err := shared.New(r.Settings)
	if err != nil {
		return nil, fmt.Errorf("planning for a serverless platform: %w", err)
	}
	y, spec := r.System, d.Model.Spec
	if layers := d.MoELayers(); len(layers) != y.Layers || spec.Experts != y.Experts || spec.TopK != y.TopK {
		return nil, fmt.Errorf("the platform is rented for %d layers of %d experts, %d of them for a row; the model has %d, %d and %d", y.Layers, y.Experts, y.TopK, len(layers), spec.Experts, spec.TopK)
	}
	t := &renter{policy: p, d: d, rent: r, core: core, rows: newActivation(d.MoELayers(), y.Experts)}
	t.limits = claims.Limits{Model: d.Identity.Model, Layers: spec.Layers, Experts: spec.Experts, MoE: d.Shape.MoE, TopK: spec.TopK}
	t.bills = newBills(y, r.SLO, core.Main.Memory, d.Telemetry.Metrics.Rented)
	return t, nil
}

// Begin implements planner.Elastic.
func (r *renter) Begin() {
	r.policy.Begin()
	core, err := shared.New(r.rent.Settings)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil { // it was made with the same settings
		r.log.Error("not planning", "error", err)
		return
	}
	r.core, r.bills = core, newBills(r.rent.System, r.rent.SLO, core.Main.Memory, r.bills.metrics)
	r.rent.Turns.answer(r, nil)
}

// Hear implements planner.Elastic.
func (r *renter) Hear(ctx context.Context) {
	for subject, handle := range map[string]nats.MsgHandler{r.d.Subjects.Sequence(): r.came, r.d.Subjects.AnyToken(): r.told} {
		sub, err := r.d.Conn.Subscribe(subject, "", handle)
		if err != nil {
			r.log.Error("the plan does not follow requests", "error", err)
			continue
		}
		defer func() { _ = sub.Unsubscribe() }() // fails when it is already gone
	}
	stop := r.d.Telemetry.Metrics.Rented.Divergence.Follow(r.whileActive(r.divergence))
	defer stop()
	defer r.rent.Turns.answer(nil, r)
	r.policy.hear(ctx, r.observe)
}

// observe takes in a sample: the core's, and where it is a gate's that can be, the last rows'.
func (r *renter) observe(s *pb.LoadSample) {
	r.policy.observe(s)
	if s.GetSource() == pb.LoadSource_LOAD_SOURCE_GATE && r.limits.Check(s) == nil {
		r.rows.add(s)
	}
}

// came hears of a request that was stored for attention.
func (r *renter) came(m *nats.Msg) {
	s := &pb.Sequence{}
	if proto.Unmarshal(m.Data, s) != nil || len(s.PromptIds) == 0 {
		return // attention refuses it
	}
	ctx := telemetry.Propagator{}.Extract(context.Background(), m.Header)
	r.mu.Lock()
	r.bills.open(ctx, s.RequestId, len(s.PromptIds))
	r.mu.Unlock()
	if r.rent.Turns == nil {
		r.admit(s, nil)
		r.refresh()
	}
}

// admit has a request count for the plan, and wait for it where it is given as the next one.
func (r *renter) admit(s *pb.Sequence, next *turn) {
	r.mu.Lock()
	ctx := r.bills.trace(s.RequestId)
	r.bills.open(ctx, s.RequestId, len(s.PromptIds))
	r.mu.Unlock()
	_, span := r.tracer.Child(ctx, telemetry.SpanForetell)
	foretold, err := r.foretell(s.PromptIds)
	span.End()
	if err != nil {
		r.log.Debug("a request's experts are not foretold; its rows are", "error", err)
		foretold = r.rows.mean()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.core.Admit(shared.Request{Prompt: len(s.PromptIds), Output: int(s.MaxTokens) - 1, Activation: foretold})
	if err != nil {
		r.log.Error("a request does not count for the plan", "error", err)
	}
	r.asked, r.turn = trace.SpanContextFromContext(ctx), next
}

// foretell is a prompt's activation.
func (r *renter) foretell(ids []uint32) ([]float32, error) {
	if r.rent.Foretell == nil {
		return r.rows.mean(), nil
	}
	return r.rent.Foretell(ids)
}

// told hears a record of a request's log.
func (r *renter) told(m *nats.Msg) {
	record := &pb.Record{}
	if proto.Unmarshal(m.Data, record) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bills.hear(m.Subject, record, r.tracer)
}

// divergence is how far the mean of what was foretold is from the rows that came.
func (r *renter) divergence() []telemetry.Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rows.any() {
		return nil
	}
	return []telemetry.Reading{{Value: r.rows.divergence(r.core.Mean())}}
}

// Plan implements planner.Elastic.
func (r *renter) Plan(k plan.Known) (*plan.Decision, error) {
	if r.planning() == nil {
		return nil, errors.New("not planning")
	}
	began := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if inForce := shared.PlanOf(r.rent.System, k); inForce != nil && !r.core.Planned() {
		r.core.Adopt(inForce)
	}
	v, err := r.decide()
	if v.Plan == nil {
		return nil, fmt.Errorf("planning by Remoe: %w", err)
	}
	if err != nil {
		r.log.Warn("the plan stays", "error", err)
	}
	took := time.Since(began)
	r.metrics.Decision.Observe(took.Seconds())
	if pause := max(cadence, share*took); r.rent.Turns == nil {
		began = began.Add(pause)
	}
	r.decided(began, nil, nil)
	r.took(k, v.Plan.Main)
	if v.Changed {
		r.log.Info("experts are rented anew", "reason", v.Reason)
	}
	return &plan.Decision{Layers: shared.Layers(r.rent.System, v.Plan, k, v.Reason)}, nil
}

// decide asks the core, and draws its steps in the trace of the newest request. r.mu is held.
func (r *renter) decide() (shared.Verdict, error) {
	ctx, at := trace.ContextWithSpanContext(context.Background(), r.asked), time.Now()
	r.asked = trace.SpanContext{}
	r.core.Settings.Plan.Done = func(stage string) {
		now := time.Now()
		_, span := r.tracer.Child(ctx, telemetry.SpanRemoe+stage, trace.WithTimestamp(at))
		span.End(trace.WithTimestamp(now))
		at = now
	}
	return r.core.Decide()
}
