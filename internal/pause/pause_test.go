package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Pauses double up to the last one, each within a fifth of its mean.
func TestGrowing(t *testing.T) {
	g := Between(time.Second, 5*time.Second)
	for range 2 {
		for i, want := range []time.Duration{1, 2, 4, 5, 5} {
			want *= time.Second
			if got := g.Next(); got < want*8/10 || got > want*12/10 {
				t.Errorf("pause %d: %v, want about %v", i, got, want)
			}
		}
		g.Reset()
	}
}

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		cause := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := Between(time.Minute, time.Hour).Wait(ctx); !errors.Is(err, cause) {
			t.Errorf("%v, want the cause", err)
		}
	})
}
