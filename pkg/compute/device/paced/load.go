package paced

import (
	"context"
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

// Load waits for the cold start and the link, and then for the transfer.
func (l *loader) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	if err := l.wait.until(ctx, time.Now().Add(l.profile.Start())); err != nil {
		return nil, err
	}
	select {
	case l.link <- struct{}{}:
		defer func() { <-l.link }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l.transfer(ctx, id)
}

func (l *loader) transfer(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	due := time.Now().Add(l.profile.Transfer())
	e, err := l.Loader.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	l.counts.loaded(time.Since(due))
	if err := l.wait.until(ctx, due); err != nil {
		l.Free(e)
		return nil, err
	}
	return e, nil
}
