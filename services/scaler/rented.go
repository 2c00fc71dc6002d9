package scaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/claims"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rent is how to plan for hosts of a serverless platform.
type Rent struct {
	remoe.SharedSettings
	// Foretell, if set, gives the activation of a prompt's tokens; else the last rows' does.
	Foretell func(ids []uint32) ([]float32, error)
	// Turns, if set, have each request wait for its own plan.
	Turns *Turns
}

// renter plans by Remoe for all requests that it hears of. It hears of them on core NATS, as
// tokenizers store them for attention and as their logs are written: nothing waits for it, and
// without it the plan stays. What else a planner.Elastic does is the policy's.
//
//	sequence ─▶ bill, heard ─▶ foretell ─▶ foretold ─▶ plan (select, memory, replicas)
//	token log ─▶ bill
//	loads ─▶ the activation of the last rows
type renter struct {
	*policy
	d      *deployment.Deployment
	rent   Rent
	limits claims.Limits
	legal  edge.Model // what a sequence must keep
	rows   *activation

	core *remoe.Shared // only the planner's goroutine uses it
	said pause.ErrorLog

	some chan struct{} // a note that requests were heard of

	mu       sync.Mutex // guards the rest; no decision is made with it held
	heard    []heard    // requests that are to be foretold, the newest last
	foretold []remoe.SharedRequest
	mean     []float32 // activation that the plan is for
	bills    bills
	asked    trace.SpanContext // of the newest request that no decision has heard of
	turn     *turn             // the request that waits for its plan; nil: none does
}

// heard is a request that was heard of.
type heard struct {
	*pb.Sequence
	at trace.SpanContext
}

func newRenter(p *policy, d *deployment.Deployment, r Rent) (*renter, error) {
	core, err := remoe.NewShared(r.SharedSettings)
	if err != nil {
		return nil, fmt.Errorf("planning for a serverless platform: %w", err)
	}
	y, spec := r.System, d.Model.Spec
	if layers := d.MoELayers(); len(layers) != y.Layers || spec.Experts != y.Experts || spec.TopK != y.TopK {
		return nil, fmt.Errorf("the platform is rented for %d layers of %d experts, %d of them for a row; the model has %d, %d and %d", y.Layers, y.Experts, y.TopK, len(layers), spec.Experts, spec.TopK)
	}
	t := &renter{policy: p, d: d, rent: r, core: core, rows: newActivation(d.MoELayers(), y.Experts), some: make(chan struct{}, 1), mean: core.Mean()}
	t.limits = claims.Limits{Model: d.Identity.Model, Layers: spec.Layers, Experts: spec.Experts, MoE: d.Shape.MoE, TopK: spec.TopK}
	t.legal = edge.Model{Vocab: spec.Vocab, MaxLen: spec.LongestSequence(0), Task: spec.Task(), Types: spec.SourceTypes()}
	t.bills = newBills(y, r.SLO, core.Main.Memory, d.Telemetry.Metrics.Rented)
	return t, nil
}

// Begin implements planner.Elastic.
func (r *renter) Begin() {
	r.policy.Begin()
	core, err := remoe.NewShared(r.rent.SharedSettings)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil { // it was made with the same settings
		r.log.Error("not planning", "error", err)
		return
	}
	r.core, r.mean, r.heard, r.foretold = core, core.Mean(), nil, nil
	r.bills = newBills(r.rent.System, r.rent.SLO, core.Main.Memory, r.bills.metrics)
	r.end(r.turn, false)
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
	var foretelling sync.WaitGroup
	defer foretelling.Wait()
	foretelling.Go(func() { r.foretellAll(ctx) })
	r.policy.hear(ctx, r.observe)
}

// observe takes in a sample: the core's, and where it is a gate's that can be, the last rows'.
func (r *renter) observe(s *pb.LoadSample) {
	r.policy.observe(s)
	if s.GetSource() == pb.LoadSource_LOAD_SOURCE_GATE && r.limits.Check(s) == nil {
		r.rows.add(s)
	}
}

// came hears of a request that was stored for attention. It waits for nothing, as the next request
// may end soon. Attention refuses what is refused here.
func (r *renter) came(m *nats.Msg) {
	s := &pb.Sequence{}
	if proto.Unmarshal(m.Data, s) != nil || schemas.CheckRequestID(s.RequestId) != nil || r.legal.CheckSequence(s) != nil {
		r.d.Telemetry.Metrics.Refused.Inc()
		return
	}
	ctx := telemetry.Propagator{}.Extract(context.Background(), m.Header)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bills.open(ctx, s.RequestId, len(s.PromptIds))
	if r.rent.Turns == nil {
		r.heard = newest(r.heard, heard{s, trace.SpanContextFromContext(ctx)}, r.rent.Window)
		pause.Wake(r.some)
	}
}

func newest[T any](list []T, item T, n int) []T {
	list = append(list, item)
	return list[max(0, len(list)-n):]
}

// foretellAll has requests that were heard of count for the plan, until ctx ends. Those that more
// came after than a plan is for are left out.
func (r *renter) foretellAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.some:
		}
		r.mu.Lock()
		all := r.heard
		r.heard = nil
		r.mu.Unlock()
		for _, one := range all {
			if ctx.Err() != nil {
				return
			}
			r.admit(one, nil)
			r.refresh()
		}
	}
}

// admit has a request count for the plan, and wait for it where it is given as the next one.
func (r *renter) admit(s heard, next *turn) {
	_, span := r.tracer.Child(trace.ContextWithSpanContext(context.Background(), s.at), telemetry.SpanForetell)
	foretold, err := r.foretell(s.PromptIds)
	span.End()
	if err != nil {
		r.log.Debug("a request's experts are not foretold; its rows are", "error", err)
		foretold = r.rows.mean()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.foretold = newest(r.foretold, remoe.SharedRequest{Prompt: len(s.PromptIds), Output: int(s.MaxTokens) - 1, Activation: foretold}, r.rent.Window)
	r.asked, r.turn = s.at, next
}

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

// divergence returns how far the mean of what was foretold is from the rows that came.
func (r *renter) divergence() []telemetry.Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rows.any() {
		return nil
	}
	return []telemetry.Reading{{Value: r.rows.divergence(r.mean)}}
}

// Plan implements planner.Elastic.
func (r *renter) Plan(k plan.Known) (*plan.Decision, error) {
	if r.planning() == nil {
		return nil, errors.New("not planning")
	}
	began := time.Now()
	r.holds(k)
	if inForce := remoe.SharedPlanOf(r.rent.System, k); inForce != nil && !r.core.Planned() {
		r.core.Adopt(inForce)
	}
	next, asked := r.take()
	v, err := r.decide(asked)
	if v.Plan == nil {
		r.settle(next, false, 0, err)
		return nil, fmt.Errorf("planning by Remoe: %w", err)
	}
	if err != nil {
		r.said.Error(r.log, "the plan stays", err)
	}
	took := time.Since(began)
	r.metrics.Decision.Observe(took.Seconds())
	if pause := max(cadence, share*took); r.rent.Turns == nil {
		began = began.Add(pause)
	}
	r.decided(began, nil, nil)
	layers := remoe.SharedLayers(r.rent.System, v.Plan, k, v.Reason)
	r.settle(next, r.goBy(k, layers), v.Plan.Main, err)
	if v.Changed {
		r.log.Info("experts are rented anew", "reason", v.Reason)
	}
	return &plan.Decision{Layers: layers}, nil
}

// take has the core take in what was foretold, and returns the request that waits for its plan, and
// the newest one's trace.
func (r *renter) take() (next *turn, asked trace.SpanContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.foretold {
		if err := r.core.Admit(one); err != nil {
			r.log.Error("a request does not count for the plan", "error", err)
			r.end(r.turn, false)
		}
	}
	if len(r.foretold) > 0 {
		r.mean = r.core.Mean()
	}
	next, asked = r.turn, r.asked
	r.foretold, r.asked = nil, trace.SpanContext{}
	return next, asked
}

// decide asks the core, and draws its steps in the trace of the newest request.
func (r *renter) decide(asked trace.SpanContext) (remoe.SharedVerdict, error) {
	ctx, at := trace.ContextWithSpanContext(context.Background(), asked), time.Now()
	r.core.SharedSettings.Plan.Done = func(stage string) {
		now := time.Now()
		_, span := r.tracer.Child(ctx, telemetry.SpanRemoe+stage, trace.WithTimestamp(at))
		span.End(trace.WithTimestamp(now))
		at = now
	}
	return r.core.Decide()
}

// goBy reports whether layers' plans are written, and all gates go by them.
func (r *renter) goBy(k plan.Known, layers []*pb.LayerPlan) bool {
	applied := r.applied(k)
	for _, want := range layers {
		in := k.InForce[int(want.Layer)]
		if in == nil || !plan.Same(in.LayerPlan, want) || applied[int(want.Layer)] < in.Version {
			return false
		}
	}
	return true
}

// access returns what most expert hosts say that an access takes; false if none says what can be.
func access(all []*pb.Member) (takes divide.Takes, said bool) {
	times := map[divide.Takes]int{}
	for _, m := range members.OfService(all, "expert") {
		if t := plan.Takes(m.Access); m.Access != nil && t.Check() == nil {
			times[t]++
		}
	}
	for t, n := range times {
		if !said || n > times[takes] || n == times[takes] && slices.Compare(numbers(t), numbers(takes)) < 0 {
			takes, said = t, true
		}
	}
	return takes, said
}

func numbers(t divide.Takes) []float64 { return []float64{t.Read, t.Row, t.Unit, t.Call} }

// Config is what an operator sets.
type Config struct {
	// Kafka is where load samples come from.
	Kafka kafka.Config
	// Scaling is a policy that can be chosen live, with its settings (pkg/policy/registry).
	Scaling string
	// CV is the threshold up to which the replicas of a layer count as balanced.
	CV float64
	// MemoryCap bounds the bytes of a layer's replicas beyond each expert's first.
	MemoryCap uint64
	// KeepAlive is how long replicas that are retired stay loaded, and ZeroAfter how long
	// experts without rows do; 0: as the policy says by KeepAlive.
	KeepAlive, ZeroAfter time.Duration
	// Horizon is how long a change may take to pay for itself.
	Horizon time.Duration
	// MessageTime is what one more message makes a layer take; nil: it is measured.
	MessageTime *time.Duration
	// Worth is the part of all time that a replica in every layer has to save.
	Worth float64
	// Unjudged says that changes stay whatever comes of them.
	Unjudged bool
	// Takes is what an access takes on the hosts, for policies that decide by that; nil: they
	// go by what hosts tell of rows.
	Takes *cost.Device
	// Load is what loading an expert takes there; 0: it is not known before hosts have told.
	Load time.Duration
	// Rent plans for hosts of a serverless platform in Scaling's place; nil: they are of none.
	Rent *Rent
}

// Check says what is wrong, by the names of the flags.
func (c Config) Check() error {
	message := time.Duration(0)
	if c.MessageTime != nil {
		message = *c.MessageTime
	}
	for name, d := range map[string]time.Duration{"keep-alive": c.KeepAlive, "zero-after": c.ZeroAfter, "message-time": message} {
		if d < 0 || d > longest {
			return fmt.Errorf("--%s is %v; it must be 0 to %v", name, d, longest)
		}
	}
	if c.Horizon < shortest || c.Horizon > longest {
		return fmt.Errorf("--horizon is %v; it must be %v to %v, as changes take a load at least, and are judged by what comes of them within it", c.Horizon, shortest, longest)
	}
	switch {
	case c.Load > c.Horizon:
		return fmt.Errorf("--horizon is %v, and loading an expert takes %v on these hosts, so that no change could pay for itself; set it to %v at least, which is four loads", c.Horizon, c.Load, 4*c.Load)
	case c.ZeroAfter > 0 && c.KeepAlive > c.ZeroAfter:
		return fmt.Errorf("--keep-alive is %v and --zero-after %v, so that an expert's last replica would go before those that nobody needs; set --keep-alive to %v at most, or --zero-after to %v at least",
			c.KeepAlive, c.ZeroAfter, c.ZeroAfter, c.KeepAlive)
	}
	if err := c.settings().Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

const (
	// longest is the longest time that anything is waited for.
	longest = 24 * time.Hour
	// shortest is the shortest horizon: a layer's plan is decided on four times in it.
	shortest = time.Second
)

func (c Config) settings() elastic.Settings {
	s := elastic.DefaultSettings()
	s.Scaling, s.CV, s.MemoryCap = c.Scaling, c.CV, c.MemoryCap
	s.KeepAlive, s.ZeroAfter, s.Horizon = c.KeepAlive.Seconds(), c.ZeroAfter.Seconds(), c.Horizon.Seconds()
	s.Worth, s.Unjudged, s.Takes = c.Worth, c.Unjudged, c.Takes
	if c.Load > 0 {
		s.LoadSeconds = c.Load.Seconds()
	}
	if c.MessageTime != nil {
		s.MessageSeconds, s.MessageFixed = c.MessageTime.Seconds(), true
	}
	return s
}

func (c Config) policy() string {
	name, _, _ := strings.Cut(c.Scaling, ":")
	return name
}
