package layer

import (
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/policy/patience"
)

// latency follows how long layers take, to know when one is late.
type latency struct {
	mu        sync.Mutex
	estimator *patience.Estimator
	budget    patience.Budget
}

// Bounds of the patience with a layer.
const (
	// minLate is longer than a busy machine keeps a message waiting, however fast
	// layers are.
	minLate = 100 * time.Millisecond
	// minPatience is what a layer has that nothing is known of.
	minPatience = 800 * time.Millisecond
	maxPatience = 10 * time.Second
)

// How often rows are sent again that may be only slow: a tenth of all, and as often
// at once as the workers of a replica need when somebody behind them is gone.
const (
	reissueShare = 0.1
	reissueBurst = 16
)

func newLatency() *latency {
	s := patience.Settings{Factor: 2, Least: minLate.Seconds(), Most: maxPatience.Seconds()}
	return &latency{estimator: patience.New(s), budget: patience.NewBudget(reissueShare, reissueBurst)}
}

// observe takes in a layer that came back; before is what of its time had passed
// when the attempt was sent that did.
func (l *latency) observe(rows int, took *ledger.Layer, before time.Duration) {
	by := &took.By
	times := patience.Times{
		patience.Gate:       (by[ledger.GateQueue] + by[ledger.GateCompute]).Seconds(),
		patience.Function:   (by[ledger.ExpertQueue] + by[ledger.ExpertCompute] + by[ledger.ExpertTransfer]).Seconds(),
		patience.Aggregator: by[ledger.AggregatorWait].Seconds(),
		patience.Messages:   max(0, by[ledger.Messages]-before).Seconds(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.estimator.Observe(took.Layer, rows, times)
}

// sent counts a layer's rows that are sent for the first time.
func (l *latency) sent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget.Earn()
}

// spend reports whether rows may be sent again that may be only slow.
func (l *latency) spend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.budget.Spend()
}

// limits are those of so many rows of a layer.
func (l *latency) limits(layer, rows int) limits {
	l.mu.Lock()
	late, known := l.estimator.Late(layer, rows)
	usual, _ := l.estimator.Usual(layer, rows)
	l.mu.Unlock()
	if !known {
		return limits{early: minPatience, calm: minPatience, hurried: minLate}
	}
	early := duration(late)
	return limits{early: early, calm: min(max(minPatience, 2*early), maxPatience), hurried: duration(usual)}
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// step is how long one row may take through these layers before the last of them is late.
func (l *latency) step(layers []int) (longest time.Duration) {
	for _, layer := range layers {
		longest += l.limits(layer, 1).early
	}
	return longest
}

// limits say when rows are late that were just sent.
type limits struct {
	// early is when they are by what layers have taken lately. Sending them again
	// then is paid for.
	early time.Duration
	// calm is when they may be sent again whatever was paid.
	calm time.Duration
	// hurried is when they are, if somebody who may have them is gone: after longer
	// than usual, whatever faults have made of the time that layers took lately.
	hurried time.Duration
}

// pause is how long to wait after that many re-issues. The first ones come
// as fast as layers do: most faults need one or two. The next ones bridge the time
// until a dead neighbour is missed and replaced, and then pauses grow.
func (l limits) pause(attempts uint32) time.Duration {
	const even = 5
	switch {
	case attempts <= even:
		return l.early
	case attempts <= 2*even:
		return l.calm
	}
	return l.calm << min(attempts-2*even, 3)
}
