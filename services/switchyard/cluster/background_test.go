package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
)

// failing is a service that fails, and is never ready.
type failing struct{ start, run error }

func (f failing) Name() string                { return "failing" }
func (f failing) Start(context.Context) error { return f.start }
func (f failing) Run(context.Context) error   { return f.run }
func (f failing) Stop(context.Context) error  { return nil }
func (f failing) Ready() error                { return errors.New("never") }
func (f failing) Live() error                 { return errors.New("never") }

// What fails in the background is told once, and ends nothing.
func TestBackground(t *testing.T) {
	boom := errors.New("boom")
	for _, f := range []failing{{}, {start: boom}, {run: boom}, {start: boom, run: boom}} {
		var log strings.Builder
		b := &background{Service: f, log: slog.New(slog.NewTextHandler(&log, nil))}
		group := lifecycle.NewGroup("all", b)
		if err := lifecycle.Run(t.Context(), group, DrainTime); err != nil {
			t.Error(err)
		}
		want := 0
		if f != (failing{}) {
			want = 1
		}
		if n := strings.Count(log.String(), "boom"); n != want || group.Live() != nil {
			t.Errorf("%v was told %d times, live: %v", f, n, group.Live())
		}
	}
}
