package paced

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// loader loads experts for the CPU in the time, and with the bytes, of a profile.
type loader struct {
	device.Loader[*forward.Expert] // for the CPU
	profile                        *profiles.Profile
	wait                           waiter
	counts                         *counts
	link                           *link
	below                          *tier // nil: the machine's memory has all experts
}

var _ device.Piecewise[*forward.Expert] = (*loader)(nil)

func newLoader(p *profiles.Profile, on *Machine, cpu device.Loader[*forward.Expert], w waiter) *loader {
	l := &loader{Loader: cpu, profile: p, wait: w, counts: &counts{}, link: on.link, below: on.below}
	if l.link == nil {
		l.link = &link{}
	}
	return l
}

func (l *loader) Size(id forward.ExpertID) (int64, error) {
	if _, err := l.Loader.Size(id); err != nil {
		return 0, err
	}
	return l.profile.Expert(), nil
}

func (l *loader) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	return l.LoadInPieces(ctx, id, device.Pieces{Next: func() <-chan struct{} { return nil }})
}

// LoadInPieces waits for the cold start, for the expert to be in the machine's memory, and for the
// transfer. A transfer has its link until its end, or until it is to stand still.
func (l *loader) LoadInPieces(ctx context.Context, id forward.ExpertID, p device.Pieces) (*forward.Expert, error) {
	r := &run{loader: l, Pieces: p, passed: make(chan struct{}, 1)}
	defer r.leave()
	r.takes = l.profile.Transfer()
	if err := r.spend(ctx, l.profile.Start(), time.Now()); err != nil {
		return nil, err
	}
	if l.below != nil {
		let, err := l.below.bring(ctx, r, id)
		if err != nil {
			return nil, err
		}
		defer let()
	}
	if err := r.begin(ctx, l.link, l.profile.Transfer()); err != nil {
		return nil, err
	}
	began := time.Now()
	e, err := l.Loader.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	l.counts.loaded(time.Since(began) - r.takes)
	if err := r.spend(ctx, r.takes, began); err != nil {
		l.Free(e)
		return nil, err
	}
	l.counts.stood(r.stood)
	return e, nil
}

type run struct {
	*loader
	device.Pieces
	needs  *link         // nil: no link yet, or none any more
	onLink bool          // it has the link
	takes  time.Duration // the whole transfer
	stood  time.Duration // for more urgent ones
	passed chan struct{} // has a note when one that rows wait for waits for the link
}

func (r *run) demanded() bool { return r.Demanded == nil || r.Demanded() }

func (r *run) begin(ctx context.Context, on *link, takes time.Duration) error {
	r.needs, r.takes = on, takes
	stood, err := r.pass(ctx)
	r.stood += stood
	return err
}

// pieceBytes is what moves before a load stands still for a more urgent one: 66 µs of a link of
// 32 GB/s, as in the simulator (loadtest/sim/offload).
const pieceBytes = 2 << 20

// spend waits for so long from a time on, and longer when it stands still. It wakes at its end,
// and at the end of a piece in which something more urgent has come.
func (r *run) spend(ctx context.Context, left time.Duration, at time.Time) error {
	for left > 0 {
		urged, err := r.rest(ctx, at.Add(left))
		if err != nil || !urged {
			return err
		}
		piece := max(1, time.Duration(float64(r.takes)*min(1, pieceBytes/float64(r.profile.Expert()))))
		gone := max(1, (time.Since(at)+piece-1)/piece) * piece
		if gone >= left {
			return r.wait.until(ctx, at.Add(left))
		}
		left -= gone
		at = at.Add(gone)
		if err := r.wait.until(ctx, at); err != nil {
			return err
		}
		stood, err := r.pass(ctx)
		if err != nil {
			return err
		}
		at, r.stood = at.Add(stood), r.stood+stood
	}
	return ctx.Err()
}

// rest waits until a time, or until it is urged.
func (r *run) rest(ctx context.Context, until time.Time) (urged bool, err error) {
	resting, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-r.Urged:
			stop(errUrged)
		case <-r.passed:
			stop(errUrged)
		case <-done:
		}
	})
	err = r.wait.until(resting, until)
	close(done)
	watching.Wait()
	stop(nil)
	if ctx.Err() == nil && errors.Is(context.Cause(resting), errUrged) {
		return true, nil
	}
	return false, err
}

var errUrged = errors.New("something more urgent has come")

// pass lets others pass that are more urgent, and has the link then if it needs one. It
// says for how long the load stood still.
func (r *run) pass(ctx context.Context) (stood time.Duration, err error) {
	for {
		if err := r.enter(ctx); err != nil {
			return 0, err
		}
		resume := r.Next()
		if resume == nil && !r.isPassed() {
			return stood, nil
		}
		since := time.Now()
		r.leave()
		if resume != nil {
			select {
			case <-resume:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if err := r.enter(ctx); err != nil {
			return 0, err
		}
		stood += time.Since(since)
	}
}

// pressed notes that one that rows wait for waits for the link.
func (r *run) pressed() {
	select {
	case r.passed <- struct{}{}:
	default: // it has a note already
	}
}

// isPassed reports whether a more urgent load of another device waits for the link.
func (r *run) isPassed() bool { return r.needs != nil && r.needs.passes(r) }

func (r *run) enter(ctx context.Context) error {
	if r.needs == nil || r.onLink {
		return nil
	}
	err := r.needs.take(ctx, r)
	r.onLink = err == nil
	return err
}

func (r *run) leave() {
	if r.onLink {
		r.needs.give()
		r.onLink = false
	}
}
