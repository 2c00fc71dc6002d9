package intake

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// trialKey names a prompt, also after its stream was made anew.
func trialKey(d *bus.Delivery) string {
	return fmt.Sprintf("%d-%d", d.Sequence, d.Timestamp.UnixNano())
}

// try finds out whether a prompt that came again can be handled. An error says that
// it is given up, or that this could not be found out.
func (s *Prompts) try(ctx context.Context, d *bus.Delivery) error {
	if d.Delivered == 1 {
		return nil
	}
	deaths, before, err := s.deaths(ctx, trialKey(d))
	if err != nil {
		return err
	}
	if deaths > maxDeaths {
		return s.giveUpUnread(d, bus.Crashed, fmt.Sprintf("the prompt was given up: %d replicas that worked on it alone went away", deaths))
	}
	alone := func(compute func() error) error {
		return s.alone(ctx, before, attempt{deaths + 1, s.replica}, compute)
	}
	if deaths == maxDeaths {
		return s.giveUpTried(ctx, d, deaths, alone)
	}
	return alone(func() error {
		// A panic is met again by what handles the prompt after this.
		_ = s.d.Conn.Try(d.Subject, func() error { s.rehearse(d); return nil })
		return s.forget(ctx, before.key)
	})
}

// rehearse does what of a prompt's handling depends on its content.
func (s *Prompts) rehearse(d *bus.Delivery) {
	if p, err := s.readPrompt(d); err == nil {
		_, _ = s.model.Resolve(p.prompt, s.probe.Streams.Clock.Now(), rand.Uint32())
	}
}

// giveUpTried gives up what took others down. The record of that stays, as reading it
// once more may end this replica.
func (s *Prompts) giveUpTried(ctx context.Context, d *bus.Delivery, deaths int, alone func(func() error) error) error {
	var p *incoming
	var unreadable error
	if err := alone(func() error { p, unreadable = s.readPrompt(d); return nil }); err != nil {
		return err
	}
	if unreadable != nil {
		return s.giveUpUnread(d, bus.Crashed, unreadable.Error())
	}
	return s.giveUp(ctx, p, bus.Crashed, fmt.Sprintf("the prompt was given up: %d replicas that worked on it alone went away", deaths))
}

// giveUpUnread gives up what may not be read, as far as its headers tell whom to tell.
func (s *Prompts) giveUpUnread(d *bus.Delivery, reason bus.Reason, why string) error {
	in := &incoming{reply: d.Headers.Get(schemas.HeaderReplyTo), sequence: d.Sequence}
	if in.reply != "" && s.delivery.Sender.MayReply(in.destination()) != nil {
		in.reply = ""
	}
	cause := edge.Errorf(edge.Internal, "%s", why)
	s.count(cause)
	if err := s.refuse(in, cause); err != nil {
		return err
	}
	return bus.GiveUp(reason, cause)
}
