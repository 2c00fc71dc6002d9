package tokenizer

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
)

// origin is how a subject that answers go to came here, and so what it may be.
type origin uint8

const (
	// named by a prompt, in its header or its body: any subject that is not internal.
	named origin = iota
	// inbox: a message's reply subject. Anyone can put any subject there, and
	// NATS does not ask whether he may publish to it himself.
	inbox
	// rejected is our own subject of prompts that cannot be answered.
	rejected
)

// mayReply says why nothing is published to a destination. It is the one place
// that decides it, for every answer and every refusal.
func (s *Service) mayReply(to destination) error {
	if to.tenant != "" {
		if err := schemas.CheckInboxOf(to.tenant, to.subject); err != nil {
			return err
		}
	}
	switch to.origin {
	case named:
		return s.d.Subjects.CheckReplyTo(to.subject)
	case rejected:
		return nil
	}
	return s.d.Subjects.CheckInbox(to.subject, s.config.InboxPrefixes)
}

// publish is the only way to a subject that came from outside.
func (s *Service) publish(to destination, m *nats.Msg) error {
	if err := s.mayReply(to); err != nil {
		s.metrics.RefusedReplies.Inc()
		return fmt.Errorf("not answering: %w", err)
	}
	m.Subject = to.subject
	return s.edge.SendMsg(m)
}

// answerable says whether a request's reply subject can be answered to; one
// that cannot is counted, and nothing is done for it.
func (s *Service) answerable(to destination) bool {
	err := s.mayReply(to)
	if err != nil {
		s.metrics.RefusedReplies.Inc()
		s.d.Logger.Debug("ignoring a request", "error", err)
	}
	return err == nil
}
