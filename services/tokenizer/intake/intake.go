package intake

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Intake is where requests come in.
type Intake struct {
	Edge    *Edge
	Asks    *Asks
	Prompts *Prompts

	common *common
}

// New returns an intake that hears nothing yet.
func New(s Settings) *Intake {
	c := newCommon(s)
	asks := newAsks(c)
	return &Intake{common: c, Asks: asks, Prompts: newPrompts(c), Edge: newEdge(c, asks, newTokenizing(c, asks, s), s)}
}

// Begin opens the queue of prompts, and has what is under way end with own, or, of asks, a
// while after Stop.
func (i *Intake) Begin(ctx, own context.Context, all *members.View) error {
	i.common.ctx, i.common.members = own, all
	i.Asks.asking, i.Asks.end = context.WithCancel(context.WithoutCancel(ctx))
	err := i.common.d.Conn.Persist(ctx, "sharing the secret of clients' keys", func(ctx context.Context) (err error) {
		i.common.secret, err = secret(ctx, i.common.d.Leases)
		return err
	})
	if err != nil {
		return err //nolint:wrapcheck // it says what was done
	}
	return i.Prompts.openQueue(ctx)
}

// Stop takes no further prompts, and ends what is under way for asks a while later, or
// when end is called.
func (i *Intake) Stop() (end func()) {
	if i.Prompts.queue != nil {
		i.Prompts.queue.Stop()
	}
	timer := time.AfterFunc(i.Asks.lastAsks, i.Asks.end)
	return func() { timer.Stop(); i.Asks.end() }
}

// Settings are what one replica takes requests in with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
	Tracer     *telemetry.Tracer
	Log        *tokenlog.Log
	// Model says what can be asked of it. It is read when requests come.
	Model *edge.Model
	// Text makes ids of text and text of ids, once the replica is started; nil: the model has
	// no tokenizer.
	Text func() *tokenizer.Tokenizer
	// Version of the build: NATS services say it.
	Version string

	Probe     *probe.Probe
	Admission *admission.Admission
	Delivery  *delivery.Delivery
	// Tasks are what goes on until it is done, or the replica stops.
	Tasks *sync.WaitGroup
	// Keep has a subscription end with the replica.
	Keep func(*nats.Subscription, error) error
}

// common is what the parts of an intake work with.
type common struct {
	d        *deployment.Deployment
	replica  string
	presence *deployment.Presence
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics
	log      *tokenlog.Log
	model    *edge.Model
	limits   edge.Limits // of what is read
	desk     desk
	secret   string // of which gateways make ids of their clients' keys

	probe     *probe.Probe
	admission *admission.Admission
	delivery  *delivery.Delivery

	members *members.View
	tasks   *sync.WaitGroup
	ctx     context.Context // ends when the replica stops
}

func newCommon(s Settings) *common {
	d := s.Deployment
	return &common{
		d: d, replica: s.Replica, presence: s.Presence, tracer: s.Tracer, metrics: d.Telemetry.Metrics, log: s.Log,
		model: s.Model, limits: edge.Limits{Bytes: d.Streams.PromptBytes, Tokens: d.Model.Spec.LongestRequest()}, desk: newDesk(s.Admission.Weight),
		probe: s.Probe, admission: s.Admission, delivery: s.Delivery, tasks: s.Tasks,
	}
}
