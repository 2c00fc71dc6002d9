package intake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/pause"
	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Values of schemas.HeaderAsk. The prompt's Nats-Msg-Id names the ask then: copies of
// it are one.
const (
	askText  = "text"
	askTyped = "typed"
)

const (
	// asksAtOnce bounds the asks that a replica is handing over, and askBytes their bodies.
	// One tenant alone gets half of each.
	asksAtOnce = 512
	askBytes   = 64 << 20
	// storeWithin is how long an ask is tried to be stored. A copy that is stored as well
	// is found out by the request's log.
	storeWithin = 10 * time.Second
	// fullWithin is how long it is tried while the prompts' stream is full: tokenizers make
	// room there every moment, and others' large prompts leave gaps.
	fullWithin = 2 * time.Second
	storePause = 50 * time.Millisecond
	// lastAsks is how long a replica that stops goes on with the asks that it has in hand.
	lastAsks = 2 * time.Second
)

// Asks are requests of callers that wait, on their way to the prompts.
type Asks struct {
	*common
	held, bytes *policy.Portions // of asks that are being handed over
	// storing bounds the tries to store one, and fullWithin those while the stream is full;
	// lastAsks is how long asks in hand go on when the replica stops. Tests have other ones.
	storing              func(context.Context) (context.Context, context.CancelFunc)
	fullWithin, lastAsks time.Duration
	asking               context.Context // ends a while after the replica began to stop
	end                  context.CancelFunc
}

func newAsks(c *common) *Asks {
	return &Asks{
		common: c, held: policy.NewPortions(asksAtOnce), bytes: policy.NewPortions(askBytes),
		storing: storing, fullWithin: fullWithin, lastAsks: lastAsks, end: func() {},
	}
}

// ask is one on its way to the durable path.
type ask struct {
	// id names the ask, and the request if its caller does not. None may guess
	// it: a user that knows it can read the answer, or have the ask taken for a copy.
	id       string
	flow     schemas.Flow
	prompt   *pb.Prompt
	encoding pb.Encoding
	to       delivery.Destination
	msg      *nats.Msg
}

// OnAsk hands a request to the durable path, with the caller's inbox as its
// reply subject.
func (s *Asks) OnAsk(m *nats.Msg) {
	_, flow, _ := s.d.Subjects.ParseAsk(m.Subject)
	to := delivery.Destination{Subject: m.Reply, Origin: delivery.Inbox, Encoding: pb.Encoding_ENCODING_JSON, Tenant: flow.Tenant}
	if !s.delivery.Sender.Answerable(to) {
		return
	}
	if err := s.takeAsk(flow.Tenant, len(m.Data)); err != nil {
		s.refuseUnread(to, m, err)
		return
	}
	s.tasks.Go(func() {
		defer s.d.Conn.Recover(m.Subject)
		defer s.giveAsk(flow.Tenant, len(m.Data))
		s.take(to, flow, m)
	})
}

// takeAsk takes an ask's place among those that are handed over, unless it is too long to
// be read, or its tenant has as many as it may.
func (s *Asks) takeAsk(tenant string, size int) error {
	if err := s.limits.CheckSize(size); err != nil {
		return err
	}
	if !s.held.Take(tenant, 1) {
		return edge.Errorf(edge.Overloaded, "%d asks are being taken in already, of %d that may, and no more than half of them of one tenant", s.held.Had(), asksAtOnce)
	}
	if !s.bytes.Take(tenant, int64(size)) {
		s.held.Give(tenant, 1)
		return edge.Errorf(edge.Overloaded, "asks of %d bytes are being taken in already, of %d that may, and no more than half of them of one tenant", s.bytes.Had(), int64(askBytes))
	}
	return nil
}

func (s *Asks) giveAsk(tenant string, size int) {
	s.held.Give(tenant, 1)
	s.bytes.Give(tenant, int64(size))
}

// refuseUnread refuses an ask by what its headers tell.
func (s *Asks) refuseUnread(to delivery.Destination, m *nats.Msg, why error) {
	to.Encoding = edge.EncodingOf(m.Header, m.Data)
	var refused *edge.Error
	if errors.As(why, &refused) {
		s.count(refused)
	}
	s.delivery.Sender.Tell(to, edge.Refusal("", admission.RetryLater(why)))
}

// take refuses what can be refused at once, and hands the rest over.
func (s *Asks) take(to delivery.Destination, flow schemas.Flow, m *nats.Msg) {
	p, encoding, err := s.decodeAsk(flow, m)
	to.Encoding = encoding
	if err == nil {
		err = s.notReady()
	}
	if err == nil {
		err = s.handOver(&ask{id: rand.Text(), flow: flow, prompt: p, encoding: encoding, to: to, msg: m})
	}
	err = s.unlessStopped(err)
	var refused *edge.Error
	if errors.As(err, &refused) {
		s.count(refused)
		s.delivery.Sender.Tell(to, edge.Refusal(admission.UsableID(p.GetRequestId()), admission.RetryLater(refused)))
	} else if err != nil {
		s.d.Logger.Warn("an ask was not answered", "error", err)
	}
}

// decodeAsk reads an ask when it is its tenant's turn, and refuses what cannot be done whatever there is.
func (s *Asks) decodeAsk(flow schemas.Flow, m *nats.Msg) (p *pb.Prompt, encoding pb.Encoding, err error) {
	leave, late := s.desk.enter(s.asking, flow, decodedBytes(len(m.Data)))
	if late != nil {
		return nil, edge.EncodingOf(m.Header, m.Data), edge.Errorf(edge.Overloaded, "the tokenizer that had the request stops; ask again")
	}
	defer func() { s.charge(flow, leave(), err) }()
	p, encoding, err = s.limits.DecodePrompt(m.Header, m.Data, true)
	if err == nil {
		err = admission.BadRequest(flow.Check())
	}
	if err == nil && p.RequestId != "" {
		err = admission.BadRequest(schemas.CheckRequestID(p.RequestId))
	}
	if err == nil {
		err = s.model.Check(p)
	}
	return p, encoding, err
}

// unlessStopped makes what an ask met a refusal when this replica does not go on with it: its
// caller is to ask again. A copy that may be stored all the same finds it gone, or its
// request's id in use.
func (s *Asks) unlessStopped(err error) error {
	var refused *edge.Error
	if err == nil || s.asking.Err() == nil || errors.As(err, &refused) {
		return err
	}
	return edge.Errorf(edge.Overloaded, "the tokenizer that had the request stops, and could not store it: %v; ask again", err)
}

// handOver stores an ask among the prompts, once. A typed error says that it
// is not stored. Who stops goes on with what it has in hand, for lastAsks.
func (s *Asks) handOver(a *ask) error {
	ctx, cancel := s.storing(s.asking)
	defer cancel()
	for full := time.Now().Add(s.fullWithin); ; {
		err := s.storeAsk(ctx, a)
		switch {
		case err == nil:
			return nil
		case bus.IsFull(err) && time.Now().Before(full) && s.asking.Err() == nil:
		case s.asking.Err() != nil:
			return err
		case ctx.Err() != nil:
			return s.withdraw(s.asking, a, err)
		case !bus.Transient(err):
			return s.refusalOf(err)
		}
		_ = pause.For(ctx, storePause) // a late attempt says what failed last
	}
}

// storing ends after storeWithin.
func storing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storeWithin)
}

// storeAsk stores an ask and waits for the acknowledgement. A copy of what was
// stored before gets the first one's.
func (s *Asks) storeAsk(ctx context.Context, a *ask) error {
	done := make(chan error, 1)
	err := s.d.Conn.StoreAsync(ctx, s.d.Subjects.PromptOf(a.flow), a.msg.Data, a.header(), func(_ uint64, err error) { done <- err })
	if err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = bus.ErrAckLost
	}
	return err
}

func (a *ask) header() nats.Header {
	kind := askTyped
	if a.encoding == pb.Encoding_ENCODING_TEXT {
		kind = askText
	}
	h := nats.Header{schemas.HeaderAsk: {kind}, schemas.HeaderReplyTo: {a.to.Subject}, nats.MsgIdHdr: {a.id}}
	for _, name := range []string{schemas.HeaderContentType, "traceparent", schemas.HeaderSeal} {
		if values := a.msg.Header[name]; len(values) > 0 {
			h[name] = values[:1]
		}
	}
	return h
}

// withdraw ends an ask of which it is not known whether it is stored. Its token
// log decides: the first to open it has the request. If that is us, a copy that
// is taken in later finds the request ended; if not, the request goes on. It
// tries as long as it takes: no other replica can tell the caller.
func (s *Asks) withdraw(ctx context.Context, a *ask, cause error) error {
	in := a.incoming()
	hash, err := edge.BodyHash(in.prompt)
	if err != nil {
		return err
	}
	accept := &pb.Accept{
		Identity: s.delivery.Kinds.Identity(), BodyHash: hash, ReplyTo: in.reply, Encoding: in.encoding, FromIndex: in.prompt.FromIndex,
		Interactive: true, Ask: a.id, Tenant: in.flow.Tenant, Class: string(in.flow.Class),
	}
	existing, err := s.open(ctx, in, accept)
	switch {
	case bus.IsElsewhere(err):
		return nil // it was stored, and others have taken it in
	case err != nil:
		return fmt.Errorf("withdrawing an ask: %w", err)
	case existing == nil || existing.Ask == a.id && existing.PromptSequence == 0:
		s.delivery.Endings.Finish(ctx, in.prompt.RequestId, s.notStored(cause))
		return nil
	case existing.Ask == a.id:
		return nil // it was stored and taken in
	}
	return s.repeat(ctx, in, existing, hash)
}

// incoming is the ask as intake would take it in.
func (a *ask) incoming() *incoming {
	p := a.prompt
	if p.RequestId == "" {
		p.RequestId = a.id
	}
	return &incoming{flow: a.flow, prompt: p, encoding: a.encoding, reply: a.to.Subject, ask: a.id}
}

// notReady says why a caller that waits would wait in vain.
func (s *common) notReady() error {
	if !probe.Lacks(s.members.Snapshot(), "attention") {
		return nil
	}
	if !s.members.Synced() { // nobody can have been heard yet
		return edge.Errorf(edge.ModelNotReady, "this tokenizer of model %s has just started, and has not heard all replicas yet: ask again", s.d.Subjects.Model)
	}
	return edge.Errorf(edge.ModelNotReady, "no attention replica of model %s is ready", s.d.Subjects.Model)
}
