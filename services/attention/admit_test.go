package attention

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What waited while this replica was disconnected may have been given back by a sibling,
// and is left to who has begun it.
func TestBegunElsewhere(t *testing.T) {
	d := testdeployment.Open(t)
	s := New(d, Config{MaxSequences: 1})
	s.engine = newEngine(batching.Policy{}, nil, slog.New(slog.DiscardHandler), nil)
	a := arrivals(nil, "a1")[0]
	a.away = d.Conn.Gap()
	a.msg.Accept = &pb.Accept{
		Identity: &pb.Identity{Version: schemas.Version, Model: d.Identity.Model}, PromptSequence: 1, PromptTokens: 10, MaxTokens: 10,
	}
	if _, err := s.log.Accept(t.Context(), "a1", a.msg.Accept); err != nil {
		t.Fatal(err)
	}
	if s.begun(t.Context(), "a1") {
		t.Error("nobody has begun it")
	}
	if _, _, err := tokenlog.Of(d, "attention-2").Claim(t.Context(), "a1", a.msg.Accept, tokenlog.WriterSettings{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Conn.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a connection after a gap", func() bool { return d.Conn.Connected() && a.away() })
	go func() { (<-s.engine.asks).answer <- false }()
	if _, err := s.own(t.Context(), a); !errors.Is(err, errLapsed) {
		t.Errorf("error %v", err)
	}
}

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
