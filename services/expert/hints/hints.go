// Package hints takes in what predictors tell a host of the experts that it will need (hints.go),
// and has a host that offloads load them before their rows come (follower.go, flow.go). It counts
// how rows find their experts (accesses.go). A hint changes when weights move, and never what is
// computed: what is lost, late or wrong costs a load, or a wait for one.
package hints

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/pause"
	control "github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Hints are those that one host is told.
type Hints struct {
	d      *deployment.Deployment
	host   string
	queue  *control.HintQueue
	sub    *nats.Subscription // nil before Listen
	bad    pause.ErrorLog
	follow func(*pb.Hint) // nil: they are only counted
}

// New returns the hints of a host that has heard none. Those that can be go to follow, if it is
// set.
func New(d *deployment.Deployment, host string, follow func(*pb.Hint)) *Hints {
	return &Hints{d: d, host: host, queue: control.NewHintQueue(), follow: follow}
}

// Listen puts what predictors tell this host into a queue. A message's delivery waits for nothing.
func (h *Hints) Listen() (err error) {
	h.sub, err = h.d.Conn.Subscribe(h.d.Subjects.Hint(h.host), "", func(m *nats.Msg) {
		for range h.queue.Put(m.Data) {
			h.count("dropped")
		}
	})
	if err != nil {
		return fmt.Errorf("listening for hints: %w", err)
	}
	return nil
}

// Close ends listening.
func (h *Hints) Close() {
	if h.sub != nil {
		_ = h.sub.Unsubscribe() // fails without a connection: then no hint comes either
	}
}

// Run takes hints from the queue until ctx ends.
func (h *Hints) Run(ctx context.Context) {
	limits := control.HintLimits{Model: h.d.Identity.Model, Experts: h.d.Shape.Experts, MoE: h.d.Shape.MoE}
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.queue.Note():
		}
		for body, ok := h.queue.Take(); ok && ctx.Err() == nil; body, ok = h.queue.Take() {
			h.take(limits, body)
		}
	}
}

func (h *Hints) take(limits control.HintLimits, body []byte) {
	hint, err := limits.Decode(body)
	if err != nil {
		h.count("refused")
		h.bad.Error(h.d.Logger, "a hint is not followed", err)
		return
	}
	h.count("taken")
	if h.follow != nil {
		h.follow(hint)
	}
}

func (h *Hints) count(outcome string) {
	h.d.Telemetry.Metrics.Hosts.Hints.WithLabelValues(outcome).Inc()
}
