package expert

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/hints"
)

// listenForHints takes in what predictors tell this host. A message's delivery waits for nothing.
func (s *Service) listenForHints() (err error) {
	s.hintsSub, err = s.d.Conn.Subscribe(s.d.Subjects.Hint(s.id), "", func(m *nats.Msg) {
		for range s.hints.Put(m.Data) {
			s.metrics.Hosts.Hinted("dropped")
		}
	})
	if err != nil {
		return fmt.Errorf("listening for hints: %w", err)
	}
	return nil
}

// takeHints reads hints until ctx ends. They are counted; nothing moves weights by them yet.
func (s *Service) takeHints(ctx context.Context) {
	limits := hints.Limits{Model: s.d.Identity.Model, Experts: s.d.Shape.Experts, MoE: s.d.Shape.MoE}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.hints.Note():
		}
		for body, ok := s.hints.Take(); ok && ctx.Err() == nil; body, ok = s.hints.Take() {
			s.takeHint(limits, body)
		}
	}
}

func (s *Service) takeHint(limits hints.Limits, body []byte) {
	if _, err := limits.Decode(body); err != nil {
		s.metrics.Hosts.Hinted("refused")
		s.badHints.Error(s.d.Logger, "a hint is not followed", err)
		return
	}
	s.metrics.Hosts.Hinted("taken")
}
