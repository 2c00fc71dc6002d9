package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Sender is the one place that publishes to a subject that came from outside.
type Sender struct {
	*common
	prefixes []string // of inboxes
	limits   func(tenant string) schemas.Allowance
	tracer   *telemetry.Tracer
}

// Destination is where and how chunks go.
type Destination struct {
	Subject  string
	Origin   Origin
	Tenant   string // whose answer goes there; "": it is not known, or no tenant's
	limited  string // the tenant whose limits are told; "": Tenant's
	Encoding pb.Encoding
	From     int32 // the index of the first chunk that is sent
	// probed asks the server to tell when no subscription is left, and stream
	// says whose reader that is: 0 is the request's own.
	probed bool
	stream uint64
	// replay says that what is refused is a replay, and not the request.
	replay bool
}

// destinationOf is where the producer of a request gets its chunks.
func destinationOf(a *pb.Accept) Destination {
	to := Destination{Subject: a.ReplyTo, Encoding: a.Encoding, From: Beginning(a.FromIndex), probed: a.Interactive, limited: schemas.FlowOf(a).Tenant}
	if a.Interactive {
		to.Origin = Inbox
	}
	return to
}

// errCut says that a stream was ended by an error, because a chunk of it does
// not fit a message: nothing comes after that.
var errCut = errors.New("a chunk is too large for a message")

// Deliver publishes a chunk if the Destination wants it.
func (s *Sender) Deliver(to Destination, c *pb.Chunk) error {
	if to.Subject == "" || !wants(c, to.From) {
		return nil
	}
	err := s.send(to, c)
	var large *bus.TooLargeError
	if !errors.As(err, &large) {
		return err
	}
	small := edge.Refusal(c.RequestId, edge.Errorf(edge.PayloadTooLarge,
		"chunk %d does not fit the server's limit of %d bytes; ask for less (score logprobs instead of logits), or use protobuf", c.Index, large.Limit))
	small.Index = c.Index
	return errors.Join(errCut, s.send(to, small))
}

func (s *Sender) send(to Destination, c *pb.Chunk) error {
	msgs, err := edge.EncodeChunk(to.Encoding, to.Subject, c)
	if err != nil {
		return fmt.Errorf("encoding a chunk: %w", err)
	}
	limits := s.limitsFor(to, c)
	for _, m := range msgs {
		if limits != "" {
			m.Header.Set(schemas.HeaderLimits, limits)
		}
		if to.probed && c.FinishReason == "" {
			m.Reply = s.d.Subjects.Probe(s.replica, c.RequestId, to.stream)
		}
		if to.replay {
			m.Header.Set(schemas.HeaderRefused, "replay")
		}
		if err := s.Publish(to, m); err != nil {
			return err
		}
	}
	return nil
}

// limitsFor are what the reader of a first or last chunk is told of its tenant's limits; empty: there are none.
func (s *Sender) limitsFor(to Destination, c *pb.Chunk) string {
	tenant := cmp.Or(to.limited, to.Tenant)
	if c.Index > 0 && c.FinishReason == "" || tenant == "" || s.limits == nil {
		return ""
	}
	return s.limits(tenant).String()
}

// Origin is how a subject that answers go to came here, and so what it may be.
type Origin uint8

const (
	// Named by a prompt, in its header or its body: any subject that is not internal.
	Named Origin = iota
	// Inbox is a message's reply subject. Anyone can put any subject there, and
	// NATS does not ask whether its sender may publish to it.
	Inbox
	// Rejected is our own subject of prompts that cannot be answered.
	Rejected
)

// MayReply says why nothing is published to a Destination. It is the one place
// that decides it, for every answer and every refusal.
func (s *Sender) MayReply(to Destination) error {
	if to.Tenant != "" {
		if err := schemas.CheckInboxOf(to.Tenant, to.Subject); err != nil {
			return err
		}
	}
	switch to.Origin {
	case Named:
		return s.d.Subjects.CheckReplyTo(to.Subject)
	case Rejected:
		return nil
	}
	return s.d.Subjects.CheckInbox(to.Subject, s.prefixes)
}

// Publish is the only way to a subject that came from outside.
func (s *Sender) Publish(to Destination, m *nats.Msg) error {
	if err := s.MayReply(to); err != nil {
		s.metrics.RefusedReplies.Inc()
		return fmt.Errorf("not answering: %w", err)
	}
	m.Subject = to.Subject
	return s.d.Edge.SendMsg(m)
}

// Answerable reports whether a request's reply subject can be answered to; one
// that cannot is counted, and nothing is done for it.
func (s *Sender) Answerable(to Destination) bool {
	err := s.MayReply(to)
	if err != nil {
		s.metrics.RefusedReplies.Inc()
		s.d.Logger.Debug("ignoring a request", "error", err)
	}
	return err == nil
}

// Tell delivers a refusal. Where that fails, the producer hears of nothing.
func (s *Sender) Tell(to Destination, refusal *pb.Chunk) {
	if err := s.Deliver(to, refusal); err != nil {
		s.d.Logger.Debug("refusing a request", "error", err)
	}
}

// Beginning is the index of the first chunk for a reader that asked to begin at from: one that
// wants all gets the scores, too, which come before token 0.
func Beginning(from int32) int32 {
	if from == 0 {
		return math.MinInt32
	}
	return from
}

// wants reports whether a chunk is for a reader that begins at an index.
func wants(c *pb.Chunk, from int32) bool { return c.Index >= from || c.FinishReason != "" }
