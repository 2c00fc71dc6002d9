package leaving

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
)

// A streak is as long as it takes, also when the host's clock is set meanwhile.
func TestStreakWhileTheClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		var s Streak
		begun := time.Now()
		s.Fail(begun)
		s.Fail(testkit.WallSet(t, begun.Add(After), by))
		if got := s.Length(); got != After {
			t.Errorf("set by %v: %v long, want %v", by, got, After)
		}
	}
}
