package kafka_test

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// quiet logs into the test.
func quiet(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// counts are what became of samples.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounts() *counts { return &counts{n: map[string]int{}} }

func (c *counts) add(outcome string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[outcome] += n
}

func (c *counts) of(outcome string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[outcome]
}

func (c *counts) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func sample(replica string, layer uint32) *pb.LoadSample {
	return &pb.LoadSample{Version: schemas.Version, Model: 7, Host: replica, Layer: layer, SpanMs: 10}
}

// writer is a Writer that is closed at the end.
type writer struct {
	*kafka.Writer
	*counts
}

func write(t *testing.T, s kafka.WriterSettings) writer {
	t.Helper()
	c := newCounts()
	s.Count = c.add
	if s.Logger == nil {
		s.Logger = quiet(t)
	}
	w, err := kafka.NewWriter(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(ended()) })
	return writer{w, c}
}

// ended is a context for closing what has nothing left to say.
func ended() context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Second, context.DeadlineExceeded)
	_ = cancel // it ends by itself
	return ctx
}

// reader collects what a Reader hands on.
type reader struct {
	*kafka.Reader
	*counts
	stop func()

	mu  sync.Mutex
	got []*pb.LoadSample
}

func read(t *testing.T, s kafka.ReaderSettings) *reader {
	t.Helper()
	c := newCounts()
	s.Count = c.add
	if s.Logger == nil {
		s.Logger = quiet(t)
	}
	if s.Group == "" {
		s.Group = t.Name()
	}
	in, err := kafka.NewReader(s)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{Reader: in, counts: c}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Consume(ctx, r.take) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("consuming: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *reader) take(s *pb.LoadSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, s)
}

func (r *reader) samples() []*pb.LoadSample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*pb.LoadSample(nil), r.got...)
}

// flows sends samples until readers get some: a new group begins at the end, which
// is somewhere before that.
func flows(t *testing.T, w writer, readers ...*reader) {
	t.Helper()
	testkit.Eventually(t, "samples flow to all readers", func() bool {
		for layer := range uint32(64) {
			w.Send(sample("flow", layer))
		}
		time.Sleep(20 * time.Millisecond)
		for _, r := range readers {
			if r.of(kafka.Handled) == 0 {
				return false
			}
		}
		return true
	})
}
