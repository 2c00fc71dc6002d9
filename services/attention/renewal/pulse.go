package renewal

import (
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

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

// beats says whether there was progress in the last few looks, or need not be.
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

// stuck says that a worker does not get on, and waits for no other service.
func (w *Worker) stuck() bool { return !w.beats(workerLooks) && !w.Waits() }
