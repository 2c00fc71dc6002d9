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
	link                           chan struct{} // has a place: one transfer
}

var _ device.Piecewise[*forward.Expert] = (*loader)(nil)

func newLoader(p *profiles.Profile, cpu device.Loader[*forward.Expert], w waiter) *loader {
	return &loader{Loader: cpu, profile: p, wait: w, counts: &counts{}, link: make(chan struct{}, 1)}
}

// Size is the profile's for each expert that the model has.
func (l *loader) Size(id forward.ExpertID) (int64, error) {
	if _, err := l.Loader.Size(id); err != nil {
		return 0, err
	}
	return l.profile.Expert(), nil
}

// Load is LoadInPieces without a pause.
func (l *loader) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	return l.LoadInPieces(ctx, id, device.Pieces{Next: func() <-chan struct{} { return nil }})
}

// LoadInPieces waits for the cold start and the link, and then for the transfer. A
// transfer has the link until its end, or until it is to stand still.
func (l *loader) LoadInPieces(ctx context.Context, id forward.ExpertID, p device.Pieces) (*forward.Expert, error) {
	r := &run{loader: l, ctx: ctx, Pieces: p}
	defer r.leave()
	if err := r.spend(l.profile.Start(), time.Now()); err != nil { //nolint:contextcheck // the run has it
		return nil, err
	}
	r.transfers = true
	if _, err := r.pass(); err != nil {
		return nil, err
	}
	began := time.Now()
	e, err := l.Loader.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	l.counts.loaded(time.Since(began) - l.profile.Transfer())
	if err := r.spend(l.profile.Transfer(), began); err != nil { //nolint:contextcheck // the run has it
		l.Free(e)
		return nil, err
	}
	return e, nil
}

// run is one load.
type run struct {
	*loader
	device.Pieces
	ctx       context.Context
	transfers bool // it needs the link
	onLink    bool // it has the link
}

// pieceBytes is what moves before a load stands still for a more urgent one: 66 µs of a link of
// 32 GB/s, as in the simulator (pkg/sim/offload).
const pieceBytes = 2 << 20

// piece is the time of a piece; that of a cold start's is as long.
func (l *loader) piece() time.Duration {
	return max(1, time.Duration(float64(l.profile.Transfer())*min(1, pieceBytes/float64(l.profile.Expert()))))
}

// spend waits for so long from a time on, and longer when it stands still. It wakes at its end,
// and at the end of a piece in which something more urgent has come.
func (r *run) spend(left time.Duration, at time.Time) error {
	for left > 0 {
		urged, err := r.rest(at.Add(left))
		if err != nil || !urged {
			return err
		}
		piece := r.piece()
		gone := max(1, (time.Since(at)+piece-1)/piece) * piece
		if gone >= left {
			return r.wait.until(r.ctx, at.Add(left))
		}
		left -= gone
		at = at.Add(gone)
		if err := r.wait.until(r.ctx, at); err != nil {
			return err
		}
		stood, err := r.pass()
		if err != nil {
			return err
		}
		at = at.Add(stood)
	}
	return r.ctx.Err()
}

// rest waits until a time, or until it is urged.
func (r *run) rest(until time.Time) (urged bool, err error) {
	ctx, stop := context.WithCancelCause(r.ctx)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-r.Urged:
			stop(errUrged)
		case <-done:
		}
	})
	err = r.wait.until(ctx, until)
	close(done)
	watching.Wait()
	stop(nil)
	if r.ctx.Err() == nil && errors.Is(context.Cause(ctx), errUrged) {
		return true, nil
	}
	return false, err
}

// errUrged ends a rest early.
var errUrged = errors.New("something more urgent has come")

// pass lets others pass that are more urgent, and has the link then if it needs it. It
// says for how long the load stood still.
func (r *run) pass() (stood time.Duration, err error) {
	for {
		if err := r.enter(); err != nil {
			return 0, err
		}
		resume := r.Next()
		if resume == nil {
			return stood, nil
		}
		since := time.Now()
		r.leave()
		select {
		case <-resume:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
		if err := r.enter(); err != nil {
			return 0, err
		}
		stood += time.Since(since)
	}
}

// enter waits for the link.
func (r *run) enter() error {
	if !r.transfers || r.onLink {
		return nil
	}
	select {
	case r.link <- struct{}{}:
		r.onLink = true
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func (r *run) leave() {
	if r.onLink {
		<-r.link
		r.onLink = false
	}
}
