package tokenizer

import "github.com/nats-io/nats.go"

// listen opens what producers reach without JetStream, and what tokenizers
// hear from each other.
func (s *Service) listen() error {
	err := s.offer("ask", endpointGroup, s.d.Subjects.Asks(), "text or JSON in, a stream of chunks out", s.onAsk)
	if err != nil {
		return err
	}
	if err := s.offer("replay", s.replayGroup(), []string{s.d.Subjects.Replay()}, "the chunks of a request again, from an index on", s.onReplay); err != nil {
		return err
	}
	for _, l := range []listener{
		{s.d.Subjects.AnyCancel(), "", s.onCancelled},
		{s.d.Subjects.AnyCancel(), "tokenizer", s.onCancel},
		{s.d.Subjects.AnyProbe(s.id), "", s.onProbe},
	} {
		if err := s.subscribe(l.subject, l.group, l.handler); err != nil {
			return err
		}
	}
	for _, l := range []listener{
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
	return s.guard()
}

type listener struct {
	subject, group string
	handler        nats.MsgHandler
}

// guard listens for what is for models that nobody serves.
func (s *Service) guard() error {
	for _, subject := range s.d.Subjects.AnyPrompt() {
		if err := s.subscribe(subject, "prompt-guard", s.onAnyPrompt); err != nil {
			return err
		}
	}
	for _, subject := range s.d.Subjects.AnyAsk() {
		if err := s.subscribe(subject, "ask-guard", s.onAnyAsk); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) subscribe(subject, group string, handle nats.MsgHandler) error {
	return s.keep(s.d.Conn.Subscribe(subject, group, handle))
}

// keep has a subscription end with the service.
func (s *Service) keep(sub *nats.Subscription, err error) error {
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}
