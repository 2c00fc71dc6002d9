package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
)

// incoming is a prompt with where its answer goes.
type incoming struct {
	flow     schemas.Flow
	prompt   *pb.Prompt
	encoding pb.Encoding
	reply    string // "": nowhere, or nowhere usable
	ask      string // names the ask that it came by; "": it did not
	sequence uint64 // in PROMPTS
	arrived  time.Time
	// followed is within which time a shard served here has seen its acceptance; 0:
	// it has none, or another replica sees it.
	followed time.Duration
	// delivered is how often it was: another replica may have, or may still be about to,
	// take in what comes again.
	delivered int
}

// again says that it was delivered before.
func (in *incoming) again() bool { return in.delivered > 1 }

// request is what is admitted of it.
func (in *incoming) request() admission.Request {
	return admission.Request{ID: in.prompt.RequestId, Flow: in.flow}
}

// destination is where its answer goes.
func (in *incoming) destination() delivery.Destination {
	to := delivery.Destination{Subject: in.reply, Encoding: in.encoding, From: delivery.Beginning(in.prompt.GetFromIndex()), Tenant: in.flow.Tenant}
	if in.ask != "" {
		to.Origin = delivery.Inbox
	}
	return to
}

// checkFlow says why a prompt's subject is not for it. What would be a canary, but
// asks for more, would take from others uncounted.
func checkFlow(in *incoming) error {
	p := in.prompt
	switch {
	case !in.flow.IsCanary():
		return in.flow.Check()
	case len(p.InputIds) != 1 || len(p.DecoderInputIds) > 1 || p.MaxTokens == nil || p.GetMaxTokens() > 1 || in.reply != "":
		return errors.New("the subject is the services' own, for requests of one token: name another tenant")
	}
	return nil
}

// read is readPrompt beside others, as many as there is memory for. A panic is an error.
func (s *Prompts) read(ctx context.Context, d *bus.Delivery) (in *incoming, err error) {
	if s.limits.CheckSize(len(d.Data)) == nil { // else it is not read
		_, flow, _ := s.d.Subjects.ParsePrompt(d.Subject)
		leave, late := s.desk.enter(ctx, flow, decodedBytes(len(d.Data)))
		if late != nil {
			return nil, late
		}
		defer func() { s.charge(flow, leave(), err) }()
	}
	defer s.beside()()
	err = s.d.Conn.Try(d.Subject, func() (err error) {
		in, err = s.readPrompt(d)
		return err
	})
	return in, err
}

func (s *Prompts) readPrompt(d *bus.Delivery) (*incoming, error) {
	ask := d.Headers.Get(schemas.HeaderAsk)
	prompt, encoding, err := s.limits.DecodePrompt(d.Headers, d.Data, ask == askText)
	if ask == askText {
		encoding = pb.Encoding_ENCODING_TEXT
	}
	_, flow, _ := s.d.Subjects.ParsePrompt(d.Subject)
	in := &incoming{flow: flow, prompt: prompt, encoding: encoding, sequence: d.Sequence, arrived: d.Timestamp, delivered: d.Delivered}
	if id := d.Headers.Get(nats.MsgIdHdr); ask != "" && schemas.CheckRequestID(id) == nil {
		in.ask = id
	}
	if in.reply = replyOf(d.Headers, prompt); in.reply != "" {
		if bad := s.delivery.Sender.MayReply(in.destination()); bad != nil {
			s.metrics.RefusedReplies.Inc()
			in.reply = ""
			return in, admission.BadRequest(bad)
		}
	}
	if err == nil {
		err = admission.BadRequest(checkFlow(in))
	}
	if err != nil {
		return in, err
	}
	return in, s.nameRequest(in)
}

// nameRequest checks the request's id, or makes one that a redelivery of the
// same prompt makes again.
func (s *Prompts) nameRequest(in *incoming) error {
	if in.prompt.RequestId != "" {
		if err := schemas.CheckRequestID(in.prompt.RequestId); err != nil {
			in.prompt.RequestId = ""
			return edge.Errorf(edge.BadRequest, "%v", err)
		}
		return nil
	}
	if in.ask != "" {
		in.prompt.RequestId = in.ask
		return nil
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", s.d.Subjects.Model, in.sequence, in.arrived.UnixNano()))
	in.prompt.RequestId = hex.EncodeToString(sum[:10])
	return nil
}

// replyOf is the reply subject that a prompt names; its header wins.
func replyOf(h nats.Header, p *pb.Prompt) string {
	if subject := h.Get(schemas.HeaderReplyTo); subject != "" {
		return subject
	}
	return p.GetReplyTo()
}
