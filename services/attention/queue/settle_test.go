package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// What an accepted request's sequence meets never makes it vanish.
func TestUnadmitted(t *testing.T) {
	s := &settler{logger: slog.New(slog.DiscardHandler)}
	again := bus.RetryAfter(admitRetry, nil)
	for _, c := range []struct {
		err, want error
	}{
		{nil, nil},
		{fmt.Errorf("claiming: %w", tokenlog.ErrFinished), nil},
		{fmt.Errorf("stopping: %w", context.Canceled), context.Canceled},
		{bus.Poison(errUnreadable), errUnreadable},
		{bus.RetryAfter(time.Second, errTheirs), errTheirs},
		{fmt.Errorf("claiming: %w", tokenlog.ErrForeign), tokenlog.ErrForeign},
	} {
		if got := s.unadmitted(t.Context(), c.err); !errors.Is(got, c.want) {
			t.Errorf("%v became %v", c.err, got)
		}
	}
	if got := s.unadmitted(t.Context(), errors.New("no answer")); fmt.Sprintf("%T", got) != fmt.Sprintf("%T", again) {
		t.Errorf("an unknown error became %T", got)
	}
}

// Why a sequence is given up follows from what its admission met.
func TestRefusalReasons(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bus.Reason
	}{
		{&bus.PanicError{Value: "index out of range"}, bus.Panicked},
		{fmt.Errorf("%w: 8 times", tokenlog.ErrFruitless), bus.Deliveries},
		{unresumable(fmt.Errorf("%w: 2 of them", tokenlog.ErrCrashed)), bus.Crashed},
		{tokenlog.ErrNotWhole, bus.Refused},
	} {
		if got := (&refusedError{nil, internal, tc.err}).reason(); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}

// A producer is told what its request met, but not what may name our files.
func TestRefusalsTold(t *testing.T) {
	for _, tc := range []struct {
		err  error
		told bool
	}{
		{&bus.PanicError{Value: "open /srv/model: no such file"}, false},
		{fmt.Errorf("%w: open /srv/model: no such file", errModel), false},
		{unresumable(fmt.Errorf("%w: 2 of them", tokenlog.ErrCrashed)), true},
	} {
		if got := (&refusedError{nil, internal, tc.err}).told(); (got == tc.err.Error()) != tc.told || strings.Contains(got, "/srv") {
			t.Errorf("%v: %s", tc.err, got)
		}
	}
}
