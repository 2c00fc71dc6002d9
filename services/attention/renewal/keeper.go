package renewal

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
)

// Delivery is bus.Delivery's part that renewing and settling needs.
type Delivery interface {
	Ack() error
	Nak(delay time.Duration) error
	End(err error) error
	InProgress() error
	AckSubject() string
}

// Keeper renews this replica's claims on its work.
type Keeper struct {
	log     *slog.Logger
	engine  *Pulse
	workers []*Worker
	// lapse is after how long without a renewal work is another's.
	lapse time.Duration

	told *members.Holdings // what is renewed

	mu   sync.Mutex
	held map[*Hold]struct{}
}

// Hold is work that is renewed until it is settled.
type Hold struct {
	Delivery
	keeper *Keeper
	worker atomic.Pointer[Worker]

	renewed time.Time   // the keeper's
	lapsed  atomic.Bool // it was not renewed in time, as when this replica hung
}

// New returns a keeper of nothing. Work is another replica's after lapse without a renewal.
func New(log *slog.Logger, engine *Pulse, workers []*Worker, lapse time.Duration) *Keeper {
	return &Keeper{log: log, engine: engine, workers: workers, lapse: lapse, told: members.NewHoldings(), held: map[*Hold]struct{}{}}
}

// Told is what siblings are to hear that this replica renews.
func (k *Keeper) Told() *members.Holdings { return k.told }

// Keep renews work from now on.
func (k *Keeper) Keep(d Delivery) *Hold {
	h := &Hold{Delivery: d, keeper: k, renewed: time.Now()}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told.Add(d.AckSubject())
	k.held[h] = struct{}{}
	return h
}

// With says which worker computes the work now; nil: none does.
func (h *Hold) With(w *Worker) { h.worker.Store(w) }

// Worker computes the work now, or is nil.
func (h *Hold) Worker() *Worker { return h.worker.Load() }

// Lapsed says that the work was once not renewed in time.
func (h *Hold) Lapsed() bool { return h.lapsed.Load() }

// Drop lets go of work without settling it.
func (h *Hold) Drop() {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	h.keeper.told.Remove(h.AckSubject())
	delete(h.keeper.held, h)
}

// Ack settles the work as the delivery's own does; it is renewed no more.
func (h *Hold) Ack() error {
	h.Drop()
	return h.Delivery.Ack()
}

// Nak settles it as the delivery's own does.
func (h *Hold) Nak(delay time.Duration) error {
	h.Drop()
	return h.Delivery.Nak(delay)
}

// End settles it as the delivery's own does.
func (h *Hold) End(err error) error {
	h.Drop()
	return h.Delivery.End(err)
}

// renewals are how often work is renewed within the time after which it lapses.
const renewals = 4

// Run renews until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.lapse / renewals)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.Renew()
		}
	}
}

// Renew renews once what is held by who gets on.
func (k *Keeper) Renew() {
	engine, stuck := k.engine.beats(engineLooks), map[*Worker]bool{}
	for _, w := range k.workers {
		stuck[w] = !w.beats(workerLooks) && !w.Waits()
	}
	for _, h := range k.all() {
		if w := h.Worker(); !engine || w != nil && stuck[w] {
			k.told.Remove(h.AckSubject())
			continue
		}
		k.tell(h)
		h.note(time.Now())
		if err := h.InProgress(); err != nil {
			k.log.Debug("renewing a claim", "error", err)
		}
	}
}

// tell has siblings know that work is renewed, unless it was settled meanwhile.
func (k *Keeper) tell(h *Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, held := k.held[h]; held {
		k.told.Add(h.AckSubject())
	}
}

// note says when work is renewed.
func (h *Hold) note(now time.Time) {
	if now.Sub(h.renewed) > h.keeper.lapse {
		h.lapsed.Store(true)
	}
	h.renewed = now
}

func (k *Keeper) all() []*Hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.held))
}

// Pulse tells from outside whether a goroutine gets on with its work, however
// long that takes.
type Pulse struct {
	Progress forward.Progress
	busy     atomic.Bool // who has no work cannot hang
	// The keeper's: the progress at its last look, and how many looks ago it moved.
	seen  uint64
	still int
}

// Begin says that the goroutine has work from now on.
func (p *Pulse) Begin() {
	p.Progress.Tick()
	p.busy.Store(true)
}

// Rest says that it has none.
func (p *Pulse) Rest() { p.busy.Store(false) }

// beats reports whether there was progress in the last few looks, or need not be.
func (p *Pulse) beats(looks int) bool {
	if done := p.Progress.Done(); done != p.seen {
		p.seen, p.still = done, 0
	} else {
		p.still++
	}
	return p.still < looks || !p.busy.Load()
}

// Worker computes sequences.
type Worker struct {
	Pulse
	// Waits says that others have its rows: it waits for them, and has a limit of its own.
	Waits func() bool
}

// In how many looks there has to be progress: a worker counts the smallest pieces
// of its work, the engine its turns, of which there is one each heartbeat.
const (
	workerLooks = 1
	engineLooks = 3
)
