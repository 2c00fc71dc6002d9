package attention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/deployment"
	"github.com/switchyard/switchyard/pkg/tokenlog"
)

// An aggregator that did not answer is the last choice, but a choice.
func TestSuspects(t *testing.T) {
	p := peers{aggregators: []string{"a", "b"}}
	for mb, want := range []string{"a", "b", "a"} {
		if got, _ := p.shard(uint64(mb), 0); got != want {
			t.Errorf("microbatch %d: %s", mb, got)
		}
	}
	p.suspect("a")
	for mb := range uint64(3) {
		if got, _ := p.shard(mb, 0); got != "b" {
			t.Errorf("microbatch %d: %s is suspected", mb, got)
		}
	}
	p.suspect("b")
	if got, ok := p.shard(0, 0); !ok || got != "a" {
		t.Errorf("all are suspected: %q, %v", got, ok)
	}
	p.suspects["a"] = time.Now().Add(-time.Second)
	if got, _ := p.shard(1, 0); got != "a" {
		t.Errorf("%s, when the suspicion of a is over", got)
	}
}

// The attempts bridge the time until a dead neighbour is replaced at an even
// pace, and half a minute in all.
func TestPauses(t *testing.T) {
	at := minPatience
	for attempt := uint32(1); attempt <= maxAttempts; attempt++ {
		pause := minPatience << pauses(attempt)
		if at < 4*time.Second && pause != minPatience {
			t.Errorf("attempt %d, %v after the first: a pause of %v", attempt, at, pause)
		}
		at += pause
	}
	if at < 30*time.Second {
		t.Errorf("given up after %v", at)
	}
}

// What an accepted request's sequence meets never makes it vanish.
func TestUnadmitted(t *testing.T) {
	s := &Service{d: &deployment.Deployment{Settings: deployment.Settings{Logger: slog.New(slog.DiscardHandler)}}}
	again := bus.RetryAfter(admitRetry, nil)
	for _, c := range []struct {
		err, want error
	}{
		{nil, nil},
		{fmt.Errorf("claiming: %w", tokenlog.ErrFinished), nil},
		{fmt.Errorf("stopping: %w", context.Canceled), context.Canceled},
		{bus.Poison(errUnreadable), errUnreadable},
		{fmt.Errorf("claiming: %w", tokenlog.ErrUnknown), tokenlog.ErrUnknown},
	} {
		if got := s.unadmitted(t.Context(), c.err); !errors.Is(got, c.want) {
			t.Errorf("%v became %v", c.err, got)
		}
	}
	if got := s.unadmitted(t.Context(), errors.New("no answer")); fmt.Sprintf("%T", got) != fmt.Sprintf("%T", again) {
		t.Errorf("an unknown error became %T", got)
	}
}
