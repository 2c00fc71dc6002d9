package attention

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/siblings"
)

// pulse tells from outside whether a goroutine gets on with its work, however
// long that takes.
type pulse struct {
	progress forward.Progress
	busy     atomic.Bool // who has no work cannot hang
	// The keeper's: the progress at its last look, and how many looks ago it moved.
	seen  uint64
	still int
}

func (p *pulse) begin() {
	p.progress.Tick()
	p.busy.Store(true)
}

func (p *pulse) rest() { p.busy.Store(false) }

// beats says whether there was progress in the last few looks, or need not be.
func (p *pulse) beats(looks int) bool {
	if done := p.progress.Done(); done != p.seen {
		p.seen, p.still = done, 0
	} else {
		p.still++
	}
	return p.still < looks || !p.busy.Load()
}

// In how many looks there has to be progress: a worker counts the smallest pieces
// of its work, the engine its turns, of which there is one each heartbeat.
const (
	workerLooks = 1
	engineLooks = 3
)

// keeper renews this replica's claims on its work, from a goroutine of its own:
// a sequence stays here while the engine gets on and so does the worker that has
// it. A replica that hangs stops renewing and loses its sequences.
type keeper struct {
	log     *slog.Logger
	engine  *pulse
	workers []*worker
	// lapse is after how long without a renewal work is another's; 0: never.
	lapse time.Duration

	told *siblings.Holdings // what is renewed

	mu   sync.Mutex
	held map[*hold]struct{}
}

// hold is work that is renewed until it is settled.
type hold struct {
	delivery
	keeper *keeper
	worker atomic.Pointer[worker] // that computes it now, or nil

	renewed time.Time   // the keeper's
	lapsed  atomic.Bool // it was not renewed in time, as when this replica hung
}

func newKeeper(log *slog.Logger, engine *pulse, workers []*worker) *keeper {
	return &keeper{log: log, engine: engine, workers: workers, told: siblings.NewHoldings(), held: map[*hold]struct{}{}}
}

// keep renews work from now on.
func (k *keeper) keep(d delivery) *hold {
	h := &hold{delivery: d, keeper: k, renewed: time.Now()}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told.Add(d.AckSubject())
	k.held[h] = struct{}{}
	return h
}

// drop lets go of work without settling it.
func (h *hold) drop() {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	h.keeper.told.Remove(h.AckSubject())
	delete(h.keeper.held, h)
}

// Ack settles the work as the delivery's own does; it is renewed no more.
func (h *hold) Ack() error {
	h.drop()
	return h.delivery.Ack()
}

// Nak settles it as the delivery's own does.
func (h *hold) Nak(delay time.Duration) error {
	h.drop()
	return h.delivery.Nak(delay)
}

// End settles it as the delivery's own does.
func (h *hold) End(err error) error {
	h.drop()
	return h.delivery.End(err)
}

// run renews until ctx ends.
func (k *keeper) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.renew()
		}
	}
}

func (k *keeper) renew() {
	engine, stuck := k.engine.beats(engineLooks), map[*worker]bool{}
	for _, l := range k.workers {
		stuck[l] = !l.pulse.beats(workerLooks) && !l.remote.waiting()
	}
	for _, h := range k.all() {
		if l := h.worker.Load(); !engine || l != nil && stuck[l] {
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
func (k *keeper) tell(h *hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, held := k.held[h]; held {
		k.told.Add(h.AckSubject())
	}
}

// note says when work is renewed.
func (h *hold) note(now time.Time) {
	if lapse := h.keeper.lapse; lapse > 0 && now.Sub(h.renewed) > lapse {
		h.lapsed.Store(true)
	}
	h.renewed = now
}

func (k *keeper) all() []*hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.held))
}
