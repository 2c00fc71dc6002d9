package attention

import (
	"context"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// Stopping takes no longer than it may, though something waits for a server.
func TestStopIsBounded(t *testing.T) {
	s := New(testdeployment.Open(t), Config{MaxSequences: 1})
	s.ctx, s.stop = context.WithCancel(context.Background())
	defer s.stop()
	s.tasks.Go(func() { <-s.ctx.Done() })
	late, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(late) }()
	testkit.Eventually(t, "stopped", func() bool { return len(stopped) > 0 })
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
