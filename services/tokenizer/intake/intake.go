package intake

import (
	"context"
	"time"
)

// Intake is where requests come in.
type Intake struct {
	Edge    *Edge
	Asks    *Asks
	Prompts *Prompts

	common *common
}

// New returns an intake that hears nothing yet.
func New(s Settings) *Intake {
	c := newCommon(s)
	asks := newAsks(c)
	return &Intake{common: c, Asks: asks, Prompts: newPrompts(c), Edge: newEdge(c, asks, newTokenizing(c, asks, s), s)}
}

// Begin opens the queue of prompts, and has what is under way end with own, or, of asks, a
// while after Stop.
func (i *Intake) Begin(ctx, own context.Context, all Members) error {
	i.common.ctx, i.common.members = own, all
	i.Asks.asking, i.Asks.end = context.WithCancel(context.WithoutCancel(ctx))
	err := i.common.d.Conn.Persist(ctx, "sharing the secret of clients' keys", func(ctx context.Context) (err error) {
		i.common.secret, err = secret(ctx, i.common.d.Leases)
		return err
	})
	if err != nil {
		return err //nolint:wrapcheck // it says what was done
	}
	return i.Prompts.openQueue(ctx)
}

// Stop takes no further prompts, and ends what is under way for asks a while later, or
// when end is called.
func (i *Intake) Stop() (end func()) {
	i.Prompts.stop()
	timer := time.AfterFunc(i.Asks.lastAsks, i.Asks.end)
	return func() { timer.Stop(); i.Asks.end() }
}
