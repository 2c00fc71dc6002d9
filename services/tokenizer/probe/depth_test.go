package probe

import (
	"context"
	"testing"
	"time"
)

// A queue without an answer does not lose the other's depth.
func TestDepthBesideASilentQueue(t *testing.T) {
	for _, silent := range []string{"prompt", "sequence"} {
		t.Run(silent, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			seen := waitingIn(ctx, []queue{{kind: "prompt", stream: "prompt"}, {kind: "sequence", stream: "sequence"}},
				func(ctx context.Context, stream, _ string) (queued, error) {
					if stream == silent {
						<-ctx.Done()
					}
					defer cancel() // the other one has been asked
					return queued{pending: 3}, ctx.Err()
				})
			if _, told := seen[silent]; told || len(seen) != 1 {
				t.Errorf("saw %v", seen)
			}
		})
	}
}
