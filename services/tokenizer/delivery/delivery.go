package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/calls"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Delivery is what one replica delivers.
type Delivery struct {
	Sender  *Sender
	Kinds   *Kinds
	Endings *Endings
	Shards  *Shards
	Replays *Replays

	common *common
}

// New returns a delivery that has not begun.
func New(s Settings) *Delivery {
	c := newCommon(s)
	sender := &Sender{common: c, prefixes: s.InboxPrefixes, tracer: s.Tracer, limits: s.Ledger.Limits}
	kinds := &Kinds{own: s.Deployment.Identity.Model}
	endings := newEndings(c, sender)
	return &Delivery{
		Sender: sender, Kinds: kinds, Endings: endings, common: c,
		Shards:  newShards(c, newOwner(c, s, sender, endings), kinds, s.Presence),
		Replays: newReplays(c, s.Now, sender, kinds, endings),
	}
}

// Begin has what is noted be done until ctx ends, beside the members that are seen.
func (v *Delivery) Begin(ctx context.Context, all *members.View) {
	v.common.ctx, v.Kinds.members, v.Shards.members = ctx, all, all
	for _, t := range []*timers{v.Endings.soon, v.Endings.overdue, v.Endings.owned, v.Replays.deserted} {
		v.common.tasks.Go(func() { t.run(ctx) })
	}
}

// Run serves shards and packs logs until ctx ends.
func (v *Delivery) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { v.Shards.serve(ctx) })
	running.Go(func() { v.Shards.watchSequences(ctx) })
	running.Go(func() { v.Shards.owner.packing.run(ctx) })
}

// Listener is a subject on which this replica listens, and in which queue group; "": in none.
type Listener struct {
	Subject, Group string
	Handle         nats.MsgHandler
}

// Listeners are what tokenizers hear from each other.
func (v *Delivery) Listeners() []Listener {
	s := v.common.d.Subjects
	return []Listener{
		{s.AnyCancelled(), "", v.Endings.onCancelled},
		{s.AnyCancelledOf(), "", v.Endings.onCancelledOf},
		{s.AnyCancelled(), "tokenizer", v.Endings.onCancelledOne},
		{s.AnyStop(), "tokenizer", v.Endings.onStop},
		{s.AnyInterest(interestAsked), "", v.Replays.onInterestAsked},
		{s.AnyInterest(interestHeld), "", v.Replays.onInterestHeld},
		{s.AnyInterest(interestTaken), "", v.Replays.onInterestTaken},
		{s.AnyInterest(interestHanded), v.Kinds.Group(), v.Replays.onInterestHanded},
	}
}

// Settings are what one replica delivers with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
	Tracer     *telemetry.Tracer
	Log        *tokenlog.Log
	// InboxPrefixes begin the reply subjects that replays answer to.
	InboxPrefixes []string
	// Now is the servers' time.
	Now func() time.Time
	// Detokenizer makes text of a request's tokens.
	Detokenizer func() Detokenizer
	// Calls is how the model writes calls of tools; nil: it has no tokenizer.
	Calls func() *calls.Syntax
	// Ledger counts what logs say of the requests in the shards that this replica serves, Reserved
	// what the token log must still take of requests, and Canaries are told what it says of them.
	Ledger   *admission.Admission
	Reserved *admission.Reservations
	Canaries *probe.Canaries
	// Tasks are what goes on until it is done, or the replica stops.
	Tasks *sync.WaitGroup
}

// common is what the parts of a delivery work with.
type common struct {
	d       *deployment.Deployment
	replica string
	metrics *telemetry.Metrics
	log     *tokenlog.Log
	detok   func() Detokenizer
	calls   func() *calls.Syntax
	tasks   *sync.WaitGroup
	ctx     context.Context // ends when the replica stops
}

func newCommon(s Settings) *common {
	d := s.Deployment
	return &common{d: d, replica: s.Replica, metrics: d.Telemetry.Metrics, log: s.Log, detok: s.Detokenizer, calls: s.Calls, tasks: s.Tasks}
}

// answer begins the answer of a request.
func (c *common) answer(request string, accept *pb.Accept) *answer {
	a := newAnswer(request, accept, c.detok())
	if c.calls != nil {
		a.parseAs(c.calls())
	}
	return a
}

// signal sends a message whose subject says all.
func (c *common) signal(subject string) {
	if err := c.d.Conn.Tell(subject, schemas.SignalBody(subject)); err != nil {
		c.d.Logger.Warn("sending a signal", "subject", subject, "error", err)
	}
}

// isSignal counts what is none.
func (c *common) isSignal(m *nats.Msg) bool {
	is := schemas.IsSignal(m.Subject, m.Data)
	if !is {
		c.metrics.Refused.Inc()
	}
	return is
}
