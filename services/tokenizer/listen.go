package tokenizer

import (
	"cmp"

	"github.com/nats-io/nats.go"
)

// listen opens what producers reach without JetStream, and what tokenizers
// hear from each other.
func (s *Service) listen() error {
	if err := s.listenAtEdge(); err != nil {
		return err
	}
	for _, l := range []listener{
		{s.d.Subjects.AnyCancelled(), "", s.onCancelled},
		{s.d.Subjects.AnyCancelled(), "tokenizer", s.onCancelledOne},
		{s.d.Subjects.AnyStop(), "tokenizer", s.onStop},
		{s.d.Subjects.AnyInterest(interestAsked), "", s.onInterestAsked},
		{s.d.Subjects.AnyInterest(interestHeld), "", s.onInterestHeld},
		{s.d.Subjects.AnyInterest(interestTaken), "", s.onInterestTaken},
		{s.d.Subjects.AnyInterest(interestHanded), s.replayGroup(), s.onInterestHanded},
		{s.d.Subjects.AnyHoldings("tokenizer"), "", s.siblings.OnTold},
	} {
		if err := s.keep(s.d.Conn.Hear(l.subject, l.group, l.handler)); err != nil {
			return err
		}
	}
	return nil
}

type listener struct {
	subject, group string
	handler        nats.MsgHandler
}

// guard listens for what is for models that nobody serves.
func (s *Service) guard() error {
	at := cmp.Or(s.d.Guard, s.edge)
	for _, subject := range s.d.Subjects.AnyPrompt() {
		if err := s.subscribeAt(at, subject, "prompt-guard", s.onAnyPrompt); err != nil {
			return err
		}
	}
	for _, subject := range s.d.Subjects.AnyAsk() {
		if err := s.subscribeAt(at, subject, "ask-guard", s.onAnyAsk); err != nil {
			return err
		}
	}
	return nil
}

// keep has a subscription end with the service.
func (s *Service) keep(sub *nats.Subscription, err error) error {
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}
