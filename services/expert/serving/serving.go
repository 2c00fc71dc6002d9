package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/compute"
	"github.com/switchyard/switchyard/services/expert/residency"
)

// Settings are what a host serves with.
type Settings struct {
	Deployment *deployment.Deployment
	// Host is the host's id.
	Host      string
	Presence  Presence
	Tracer    *telemetry.Tracer
	Functions *residency.Residency
	Computers *compute.Computers
	Loads     Loads
	// Watch sees dispatches come; nil: nobody looks.
	Watch Watch
	// Invoked has functions that plans rent for batches take the time of a serverless platform; nil: there are none.
	Invoked *compute.RentedHost
}

// Watch is who sees dispatches; a *hints.Follower does.
type Watch interface {
	// Arrived comes before the experts of a dispatch are looked for, which may be any numbers. The
	// span is one of its trace.
	Arrived(span trace.SpanContext, d *pb.Dispatch)
	// Stalled says that a dispatch has waited so long for experts.
	Stalled(d *pb.Dispatch, waited time.Duration)
	// Done says that a dispatch has given its experts back.
	Done()
}

// Presence counts what the members see of the host; a *deployment.Presence does.
type Presence interface{ Add(name string, n float64) }

// Loads counts the rows of each expert of a layer; a *loads.Counter does.
type Loads interface {
	Add(layer uint32, experts []uint32)
}

const (
	// ownAtOnce is how many dispatches compute at a time that came to the host by name, of
	// ownInFlight that are taken from acked hops; usually none comes.
	ownAtOnce   = 4
	ownInFlight = 32
)

// Serving computes the dispatches that come to one host.
type Serving struct {
	Settings
	d       *deployment.Deployment
	metrics *telemetry.Metrics
	late    wire.Lateness
	rows    *transfer.Link

	own      *bus.Receiving // rows for this host by name; nil before Listen
	waiters  sync.WaitGroup // dispatches by name that wait for a function
	awaiting chan struct{}  // one of each
}

// New returns a Serving that takes what Receive is given.
func New(s Settings) *Serving {
	d := s.Deployment
	return &Serving{Settings: s, d: d, rows: d.Rows(s.Tracer), metrics: d.Telemetry.Metrics, late: wire.Lateness{Shape: d.Shape}, awaiting: make(chan struct{}, waitAtOnce)}
}

// Listen begins to take dispatches that are sent to the host by name.
func (s *Serving) Listen(ctx context.Context) (err error) {
	s.own, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Host(), Name: s.Host, Subject: s.d.Subjects.Host(s.Host), MaxInFlight: ownInFlight, Concurrency: ownAtOnce, Sole: true,
	}, func(ctx context.Context, m *bus.Msg) error { return s.Receive(ctx, m, nil) })
	if err != nil {
		return fmt.Errorf("receiving this host's rows: %w", err)
	}
	return nil
}

// Drain finishes what was sent to the host by name.
func (s *Serving) Drain(ctx context.Context) (err error) {
	if s.own != nil {
		err = s.own.Drain(ctx)
	}
	s.waiters.Wait() // they end with their receiving
	return err
}

// incoming is a dispatch that has come.
type incoming struct {
	d       *pb.Dispatch
	arrived time.Time
	took    *pb.FunctionTime
	watch   ledger.Stopwatch
	begun   bool // another host may have begun with it
}

// Receive computes a dispatch: one from the group of f, or, when f is nil, one
// that was sent to this host by name. An error says that the message is to come again, but for
// bus.Poison and wire.ErrLate.
func (s *Serving) Receive(ctx context.Context, m *bus.Msg, f *residency.Function) error {
	watch := ledger.StartAt(m.Arrived)
	took := &pb.FunctionTime{QueueNs: watch.Lap()}
	d := &pb.Dispatch{}
	if err := proto.Unmarshal(m.Data, d); err != nil {
		return bus.Poison(fmt.Errorf("%w: decoding a dispatch: %w", wire.ErrMalformed, err))
	}
	if err := s.late.Check(d.Key, m.Arrived, time.Now()); err != nil {
		return err
	}
	took.TransferNs = watch.Lap()
	in := incoming{d, m.Arrived, took, watch, m.Delivered > 1 || d.GetKey().GetAttempt() > 0}
	if f == nil {
		return s.receiveByName(ctx, in)
	}
	return s.serve(ctx, f, in)
}

// serve computes a dispatch, in as many parts as the host's memory takes.
func (s *Serving) serve(ctx context.Context, f *residency.Function, in incoming) error {
	if s.Watch != nil {
		s.Watch.Arrived(trace.SpanContextFromContext(ctx), in.d)
	}
	groups := s.Functions.Fit(f, in.d.GetExpert())
	if groups == nil {
		return s.servePart(ctx, f, in)
	}
	if err := s.rows.Whole(ctx, in.d); err != nil {
		return s.outcome(ctx, f, in.d, err)
	}
	if _, err := s.d.Shape.CheckDispatch(in.d); err != nil {
		return s.refuse(ctx, in.d, err)
	}
	for _, experts := range groups {
		part := in
		part.d, part.took = onlyExperts(s.d.Shape, in.d, experts), proto.CloneOf(in.took)
		if err := s.servePart(ctx, f, part); err != nil {
			return err
		}
		in.d.Gate, in.d.Fates = nil, nil // the first part has told them
	}
	return nil
}

// servePart computes a dispatch when its function is warm.
func (s *Serving) servePart(ctx context.Context, f *residency.Function, in incoming) error {
	a, err := s.Functions.Rouse(ctx, f, in.d, in.arrived)
	unloaded := (*device.FailedError)(nil)
	switch {
	case errors.As(err, &unloaded):
		s.d.Logger.Error("an expert that rows want cannot be loaded", "expert", unloaded.ID, "error", unloaded.Err)
		return s.decline(ctx, in.d, err)
	case err != nil:
		return err
	case a.Stale:
		s.metrics.Repeats.Inc()
		return nil
	case a.Waited:
		in.took.StallNs = in.watch.Lap()
		if s.Watch != nil {
			s.Watch.Stalled(in.d, time.Duration(in.took.StallNs))
		}
		if !wire.Remains(in.d.Key, time.Duration(in.took.StallNs)) {
			s.Functions.Done(f, a)
			return wire.ErrLate
		}
	}
	defer s.done(f, a)
	ctx, span := s.Tracer.Child(ctx, telemetry.SpanExpert,
		telemetry.Layer(in.d.GetKey().GetLayer()), telemetry.Attempt(in.d.GetKey().GetAttempt()), trace.WithAttributes(telemetry.AttrFunction.String(f.ID())),
		telemetry.Stalled(a.Missing, time.Duration(in.took.StallNs).Seconds()))
	defer span.End()
	in.took.Function = f.Number()
	in.took.TransferNs += in.watch.Lap()
	return s.handle(ctx, f, in, a.Cold)
}

func (s *Serving) done(f *residency.Function, a residency.Roused) {
	s.Functions.Done(f, a)
	if s.Watch != nil {
		s.Watch.Done()
	}
}

// handle has the rows of a dispatch fetched where they are elsewhere, computes them, and sends what
// comes of them.
func (s *Serving) handle(ctx context.Context, f *residency.Function, in incoming, cold bool) error {
	d, took := in.d, in.took
	to := s.d.Subjects.Partial(d.GetKey().GetAggregator())
	call := s.invocation(f, d)
	compute := func(ctx context.Context, part *pb.Dispatch, waited time.Duration, then func(*pb.Partial) error) error {
		took.TransferNs += uint64(waited)
		p := computing{f, part, took, cold}
		took = &pb.FunctionTime{Function: f.Number()} // of the next minibatch
		return s.compute(ctx, p, func(out *pb.Partial) error {
			if call == nil && s.whole(d, out) { // an invocation is billed for sending to the aggregator
				return s.answer(ctx, out)
			}
			return then(out)
		})
	}
	var err error
	if call == nil {
		err = s.rows.Of(d.Parcel).Serve(ctx, to, d, in.begun, compute)
	} else {
		err = s.invoke(ctx, call, to, in, compute)
	}
	return s.outcome(ctx, f, d, err)
}

// invocation is that of a function which a plan has rented for batches; nil: none has.
func (s *Serving) invocation(f *residency.Function, d *pb.Dispatch) *compute.RentedCall {
	if s.Invoked == nil || d.GetKey() == nil {
		return nil
	}
	return s.Invoked.Invoke(int(d.Key.Layer), f.ID(), time.Now())
}

// invoke serves a dispatch in a platform's time, and counts what the invocation is billed.
func (s *Serving) invoke(ctx context.Context, call *compute.RentedCall, to string, in incoming, compute transfer.Compute) error {
	err := call.Serve(ctx, s.rows.Settings, to, in.d, in.begun, compute)
	if err == nil {
		billed, model := call.Bill(in.d.Parcel, len(in.d.Place))
		s.metrics.Invoked.Billed(cmp.Or(in.d.Parcel.GetMode(), plan.Direct), billed, model)
	}
	return err
}

// outcome says what comes of a dispatch that met an error.
func (s *Serving) outcome(ctx context.Context, f *residency.Function, d *pb.Dispatch, err error) error {
	switch unable := (*compute.UnitError)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &unable), transfer.Lost(err):
		return s.decline(ctx, d, err)
	case compute.Permanent(err):
		return s.refuse(ctx, d, err)
	}
	return fmt.Errorf("function %s: %w", f.ID(), err)
}

// computing is a dispatch, or a minibatch of one, whose rows are there.
type computing struct {
	f    *residency.Function
	d    *pb.Dispatch
	took *pb.FunctionTime
	cold bool
}

// compute computes rows, counts them, and hands on what comes of them.
func (s *Serving) compute(ctx context.Context, in computing, then func(*pb.Partial) error) error {
	began := time.Now()
	c := s.Computers.Take(began)
	defer s.Computers.Give(c) // the partial is the computer's until it is sent
	p, err := c.Compute(in.d, in.took)
	if err != nil {
		return err
	}
	s.metrics.ExpertCompute().Observe(time.Since(began).Seconds())
	telemetry.Took(ctx, p.ByteSeconds)
	s.count(in.f, in.d, in.took)
	if in.cold {
		in.took.ColdRows = coldRows(s.d.Shape, in.d.Place)
	}
	return then(p)
}

// count tells members, samples of loads and the function of rows that were computed.
func (s *Serving) count(f *residency.Function, d *pb.Dispatch, took *pb.FunctionTime) {
	f.Computed(d.Expert, took)
	if d.Kind != plan.United {
		s.Loads.Add(d.Key.Layer, d.Expert)
	}
	s.Presence.Add(members.HostMessages, 1)
	s.Presence.Add(members.HostRows, float64(len(d.Expert)))
}

// refuse tells the owner of rows that no host can compute them.
func (s *Serving) refuse(ctx context.Context, d *pb.Dispatch, reason error) error {
	s.metrics.Refused.Inc()
	return wire.Refuse(ctx, s.d.Hop, s.d.Subjects, d.Key, fmt.Errorf("%s: %w", s.Host, reason))
}

// decline tells the owner of rows that another host is to compute them.
func (s *Serving) decline(ctx context.Context, d *pb.Dispatch, reason error) error {
	s.Presence.Add("dispatches_not_warm_total", 1)
	return wire.Decline(ctx, s.d.Hop, s.d.Subjects, d.Key, reason)
}
