package cluster

import (
	"context"
	"log/slog"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
)

// background is a service beside those that tokens pass: they do not wait until it
// is ready, and go on when it fails. Its methods Ready and Live are hidden.
type background struct {
	lifecycle.Service
	log    *slog.Logger
	failed bool
}

// Start starts the service, or does without it.
func (b *background) Start(ctx context.Context) error {
	if err := b.Service.Start(ctx); err != nil && ctx.Err() == nil {
		b.failed = true
		b.tell(err)
	}
	return nil
}

// Run runs the service until ctx ends, or does without it.
func (b *background) Run(ctx context.Context) error {
	if b.failed {
		return nil
	}
	if err := b.Service.Run(ctx); err != nil {
		b.tell(err)
	}
	return nil
}

func (b *background) tell(err error) {
	b.log.Error("a service that no token passes has failed; tokens flow without it, and a restart of this process starts it again", "error", err)
}
