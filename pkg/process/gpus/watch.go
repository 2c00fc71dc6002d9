package gpus

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/policy/quarantine"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

const (
	// interval is between two reads; what NVML says of the last moment is of about as much.
	interval = time.Second
	// staleAfter is when what was read last is not told any more: a read may hang.
	staleAfter = 5 * interval
)

// Watch reads what one GPU says of itself, while somebody follows. It is safe for concurrent use.
type Watch struct {
	reader cuda.Reader
	every  time.Duration

	mu        sync.Mutex          // guards the rest
	followers map[int]func(error) // what each wants to hear when the GPU is lost
	last      int
	stop      context.CancelFunc // of the goroutine, while there are followers
	facts     cuda.Facts
	read      time.Time // when it was; zero: not yet
	throttle  quarantine.Throttle
	noted     map[uint64]int
	failing   bool
	lost      error
}

// NewWatch reads nothing before somebody follows.
func NewWatch(r cuda.Reader) *Watch { return every(r, interval) }

func every(r cuda.Reader, interval time.Duration) *Watch {
	return &Watch{reader: r, every: interval, followers: map[int]func(error){}, noted: map[uint64]int{}}
}

// Follow reads until all who follow have stopped, and logs what it sees to the first
// one's log. When the GPU is lost each hears it once, on a goroutine of the watch; who
// comes later hears it at once.
func (w *Watch) Follow(ctx context.Context, log *slog.Logger, lose func(error)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		go lose(w.lost)
		return func() {}
	}
	w.last++
	id := w.last
	w.followers[id] = lose
	if w.stop == nil {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx)) // others may follow for longer
		w.stop = cancel
		go w.run(own, log)
	}
	return func() { w.leave(id) }
}

func (w *Watch) leave(id int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.followers, id)
	if len(w.followers) == 0 && w.stop != nil {
		w.stop() // a read that hangs ends with the process; nobody waits for it
		w.stop = nil
	}
}

// State returns what is known now; nothing, where reading fails or hangs.
func (w *Watch) State() (s telemetry.GPUState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Noted = maps.Clone(w.noted)
	if w.read.IsZero() || time.Since(w.read) > staleAfter {
		return s
	}
	s.Facts, s.Avoid = w.facts, w.throttle.Avoid
	return s
}

// Energy returns what the GPU has taken by now, in joules.
func (w *Watch) Energy() (float64, error) { return w.reader.Energy() }

func (w *Watch) run(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		f, err := w.reader.Read()
		if ctx.Err() != nil {
			return // another one reads by now, or nobody
		}
		if w.take(log, time.Now(), f, err); errors.Is(err, cuda.ErrLost) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// take takes in what a read has brought.
func (w *Watch) take(log *slog.Logger, now time.Time, f cuda.Facts, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, xid := range f.Xids {
		w.noted[xid]++
		log.Warn("the GPU's driver has noted an error", "xid", xid)
	}
	switch {
	case errors.Is(err, cuda.ErrLost):
		w.lose(err)
		return
	case err != nil:
		if !w.failing {
			log.Warn("the GPU's figures cannot be read; it computes on", "error", err)
		}
		w.failing = true
		return
	}
	w.failing = false
	w.judge(log, now, f)
	w.facts, w.read = f, now
}

func (w *Watch) judge(log *slog.Logger, now time.Time, f cuda.Facts) {
	was := w.throttle
	if !w.read.IsZero() {
		w.throttle = was.After(now.Sub(w.read).Seconds(), f.Reasons().Throttling() != 0)
	}
	switch {
	case w.throttle.Avoid && !was.Avoid:
		log.Warn("the GPU is slowed and has been for most of the time; work goes to other replicas while there are any",
			"by", f.Reasons().Throttling().String(), "celsius", f.Values[cuda.Temperature], "watts", f.Values[cuda.Power])
	case was.Avoid && !w.throttle.Avoid:
		log.Info("the GPU is not slowed any more")
	}
}

// lose tells all who follow, and ends the watch.
func (w *Watch) lose(err error) {
	w.lost, w.read = err, time.Time{}
	for _, lose := range w.followers {
		go lose(err)
	}
	clear(w.followers)
}
