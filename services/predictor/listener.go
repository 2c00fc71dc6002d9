package predictor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// period is how often a listener's messages are counted anew.
const period = 100 * time.Millisecond

// listener listens to subjects of core NATS until so many messages have come, and
// again in the next period: some rows tell as much of loads as all of them, and
// what nobody listens to costs the server nothing.
type listener struct {
	conn     *bus.Conn
	subjects []string
	group    string
	handle   nats.MsgHandler
	budget   int // messages a period; 0: all

	mu     sync.Mutex
	subs   []*nats.Subscription // none while the budget is used up
	got    int
	closed bool
}

// open listens, if it does not yet.
func (l *listener) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = 0
	if len(l.subs) > 0 || l.closed {
		return nil
	}
	for _, subject := range l.subjects {
		sub, err := l.conn.Subscribe(subject, l.group, l.take)
		if err != nil {
			l.leave()
			return fmt.Errorf("listening to hidden rows: %w", err)
		}
		l.subs = append(l.subs, sub)
	}
	return nil
}

// take hands a message on while the budget lasts.
func (l *listener) take(m *nats.Msg) {
	if l.counts() {
		l.handle(m)
	}
}

func (l *listener) counts() bool {
	if l.budget == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got++
	if l.got == l.budget {
		l.leave()
	}
	return l.got <= l.budget
}

// leave ends the subscriptions; l.mu is held.
func (l *listener) leave() {
	for _, sub := range l.subs {
		_ = sub.Unsubscribe() // fails when it is already gone
	}
	l.subs = nil
}

// run listens again in each period until ctx ends. Without a limit it listens all the time.
func (l *listener) run(ctx context.Context) {
	if l.budget == 0 {
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = l.open() // fails on a closed connection, which ends the process
		}
	}
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.leave()
}

// Config is what an operator sets.
type Config struct {
	// Distance is how many layers ahead loads are predicted.
	Distance int
	// Weights is a file of trained gates; empty: those in this binary for the demo
	// model, and other models' own gates.
	Weights string
	// MaxRate is how many messages with rows are predicted from in a second at most;
	// 0 is all.
	MaxRate int
	// Late holds back what the maps' predictor hears for so long; it is for measuring what a slow one
	// costs.
	Late time.Duration
	// Maps are of the experts that hosts are told they will need; without a capacity they are
	// told nothing.
	Maps Maps
}

func (c Config) budget() int {
	if c.MaxRate == 0 {
		return 0
	}
	return max(1, int(float64(c.MaxRate)*period.Seconds()))
}

// Check refuses what the model makes impossible, and weights that are not its own.
// A model of one layer can be served, and has nothing to predict: that is no reason
// to refuse it here, where all services of a process are checked.
func (c Config) Check(m *model.Model) error {
	if n := len(m.Spec.Layer); c.Distance < 1 || c.Distance >= max(n, 2) {
		return fmt.Errorf("--distance is %d; with the %d layers of model %s it must be 1 to %d", c.Distance, n, m.Name, n-1)
	}
	if c.MaxRate < 0 {
		return fmt.Errorf("--max-rate is %d; it must be 0, which is all, or more", c.MaxRate)
	}
	if err := c.Maps.check(m, c.Distance); err != nil {
		return err
	}
	if c.Weights == "" {
		return nil
	}
	if _, err := predictors.For(m, c.Weights, c.Distance); err != nil {
		return fmt.Errorf("--weights: %w", err)
	}
	return nil
}
