package intake

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// What tests of a whole replica look at.
const (
	AckWait       = ackWait
	AsksAtOnce    = asksAtOnce
	MaxDeaths     = maxDeaths
	MaxDeliveries = maxDeliveries
)

func (i *Intake) Stopping() bool { return i.common.ctx.Err() != nil }

// Within has what is looked up end with a context.
func (i *Intake) Within(ctx context.Context) { i.common.ctx = ctx }

func (i *Intake) MaxBytes() int { return int(i.common.limits.Bytes) }

// InHand counts the asks that are being handed over, and their bytes.
func (s *Asks) InHand() (asks, bytes int64) { return s.held.Had(), s.bytes.Had() }

func (s *Asks) TakeAsk(tenant string, size int) error { return s.takeAsk(tenant, size) }
func (s *Asks) GiveAsk(tenant string, size int)       { s.giveAsk(tenant, size) }

// Storing bounds the tries to store an ask otherwise.
func (s *Asks) Storing(f func(context.Context) (context.Context, context.CancelFunc)) { s.storing = f }

// LastAsks bounds how long asks go on that are in hand at the end.
func (s *Asks) LastAsks(d time.Duration) { s.lastAsks = d }

func (s *Edge) Unserved(model string) (token string, unserved bool) { return s.guard.unserved(model) }

func TrialKey(d *bus.Delivery) string { return trialKey(d) }

// Alone computes something under the record of an attempt, in the place of another record.
func (s *Prompts) Alone(ctx context.Context, key, before string, revision uint64, number int, compute func() error) (record string, err error) {
	a := attempt{number, s.replica}
	return a.String(), s.alone(ctx, kept{key, []byte(before), revision}, a, compute)
}

// Secret is what gateways are told.
func (i *Intake) Secret() string { return i.common.secret }
