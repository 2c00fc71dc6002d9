package bus

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A server that is stopped while it creates a stream forgets two goroutines.
func TestMain(m *testing.M) {
	testleaks.Main(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// rig is a server on a port, so that it can be restarted, and a connection.
type rig struct {
	t    testing.TB
	dir  string
	addr string
	srv  *natsserver.Server
	conn *Conn
	obs  *counts
}

type counts struct {
	NoObserver
	published, failed, redelivered, rebuilt, refused, panicked, buried atomic.Int64
	handled                                                            [4]atomic.Int64
}

func (c *counts) Published(string, int)              { c.published.Add(1) }
func (c *counts) PublishFailed(string, error)        { c.failed.Add(1) }
func (c *counts) Redelivered(string, int)            { c.redelivered.Add(1) }
func (c *counts) Panicked(string)                    { c.panicked.Add(1) }
func (c *counts) Buried(string, Reason)              { c.buried.Add(1) }
func (c *counts) Refused(string)                     { c.refused.Add(1) }
func (c *counts) Rebuilt(string, string)             { c.rebuilt.Add(1) }
func (c *counts) Handled(_ string, _ int, o Outcome) { c.handled[o].Add(1) }

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", obs: &counts{}}
	r.startServer()
	r.addr = strings.TrimPrefix(r.srv.URL(), "nats://")
	r.conn = r.connect(r.obs)
	t.Cleanup(func() { r.srv.Shutdown() })
	t.Cleanup(func() { r.conn.Close() })
	return r
}

func (r *rig) startServer() {
	r.t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: r.dir, Listen: r.addr})
	if err != nil {
		r.t.Fatal(err)
	}
	r.srv = srv
}

func (r *rig) restart() {
	r.t.Helper()
	r.srv.Shutdown()
	r.startServer()
}

func (r *rig) connect(o Observer) *Conn {
	r.t.Helper()
	c, err := Connect(r.ctx(), Config{URL: r.srv.URL()}, Settings{Observer: o, Logger: quiet()})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	r.t.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// flush waits until all that a hop sent is acknowledged (acked), or has reached
// the server.
func flush(ctx context.Context, h *Hop) error {
	for range cap(h.out) {
		select {
		case h.out <- struct{}{}:
			defer func() { <-h.out }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.conn.nc.FlushWithContext(ctx)
}

func names(h schemas.Hops) schemas.Streams {
	return schemas.Streams{Subjects: schemas.NewSubjects("test", "m"), Hops: h}
}

func hidden(n int) *pb.Hidden {
	return &pb.Hidden{Key: &pb.Key{Version: 1, Owner: "a"}, Tensor: &pb.Tensor{Data: make([]byte, n)}}
}

func receiver(s schemas.Streams) Receiver {
	return Receiver{Stream: s.Hidden(), Name: "gate", Subject: s.Subjects.AnyHidden()}
}

var allHops = []schemas.Hops{schemas.HopsAcked, schemas.HopsUnacked, schemas.HopsCore}

func TestHopDelivers(t *testing.T) {
	for _, mode := range allHops {
		for _, concurrency := range []int{1, 4} {
			t.Run(string(mode), func(t *testing.T) {
				r := newRig(t)
				s, h := names(mode), NewHop(r.conn, mode)
				var got atomic.Int64
				rc := receiver(s)
				rc.Concurrency = concurrency
				running, err := h.Receive(r.ctx(), rc, func(_ context.Context, m *Msg) error {
					got.Add(1)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for range 500 {
					if err := h.Send(r.ctx(), s.Subjects.Hidden(3), hidden(100)); err != nil {
						t.Fatal(err)
					}
				}
				testkit.Eventually(t, "all delivered", func() bool { return got.Load() == 500 })
				if err := flush(r.ctx(), h); err != nil {
					t.Error(err)
				}
				if err := running.Drain(r.ctx()); err != nil {
					t.Error(err)
				}
				if r.obs.handled[Done].Load() != 500 || r.obs.published.Load() != 500 {
					t.Errorf("counted %d published, %d handled", r.obs.published.Load(), r.obs.handled[Done].Load())
				}
			})
		}
	}
}

func TestHopOrder(t *testing.T) {
	for _, mode := range allHops {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			s, h := names(mode), NewHop(r.conn, mode)
			got := make(chan string, 100)
			running, err := h.Receive(r.ctx(), receiver(s), func(_ context.Context, m *Msg) error {
				got <- m.Subject
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer running.Stop()
			for layer := range 100 {
				if err := h.Send(r.ctx(), s.Subjects.Hidden(layer), hidden(10)); err != nil {
					t.Fatal(err)
				}
			}
			for layer := range 100 {
				if subject := <-got; subject != s.Subjects.Hidden(layer) {
					t.Fatalf("message %d came on %s", layer, subject)
				}
			}
		})
	}
}

// Who is at work keeps nothing from the other one, however much there is.
func TestReplicasShare(t *testing.T) {
	t.Parallel()
	const ahead = 200 // more than a server that deals at random gives one before the other
	for _, mode := range allHops {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			s := names(mode)
			var shares [2]atomic.Int64
			for i := range shares {
				conn := r.connect(nil)
				t.Cleanup(conn.Close)
				rc := receiver(s)
				rc.MaxInFlight = 4
				running, err := NewHop(conn, mode).Receive(r.ctx(), rc, func(ctx context.Context, _ *Msg) error {
					for shares[i].Load() >= shares[1-i].Load()+ahead && ctx.Err() == nil {
						time.Sleep(time.Millisecond) // work that goes on until the other one has some
					}
					shares[i].Add(1)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(running.Stop)
			}
			h := NewHop(r.conn, mode)
			for range 400 {
				if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(10)); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Eventually(t, "all handled", func() bool { return shares[0].Load()+shares[1].Load() == 400 })
		})
	}
}

func TestHopSurvivesRestart(t *testing.T) {
	t.Parallel()
	for _, mode := range allHops {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			s, h := names(mode), NewHop(r.conn, mode)
			var got atomic.Int64
			running, err := h.Receive(r.ctx(), receiver(s), func(context.Context, *Msg) error {
				got.Add(1)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer running.Stop()
			for range 2 {
				if running.puller != nil {
					running.puller.busy.Store(true) // the reconnection has it go on, and not silence
				}
				r.restart()
				before := got.Load()
				testkit.Eventually(t, "a message after the restart", func() bool {
					_ = h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(10)) // may fail while disconnected
					return got.Load() > before
				})
			}
		})
	}
}

// A consumer or stream deleted under a receiver comes back at the server's word.
func TestHopSurvivesDeletion(t *testing.T) {
	s := names(schemas.HopsAcked)
	for what, del := range map[string]func(*rig) error{
		"consumer": func(r *rig) error { return r.conn.DeleteConsumer(r.ctx(), s.Hidden().Name, "gate") },
		"stream":   func(r *rig) error { return r.conn.js.DeleteStream(r.ctx(), s.Hidden().Name) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			h := NewHop(r.conn, schemas.HopsAcked)
			var largest atomic.Int64
			running, err := h.Receive(r.ctx(), receiver(s), func(_ context.Context, m *Msg) error {
				largest.Store(max(largest.Load(), int64(len(m.Data))))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer running.Stop()
			arrives := func(bytes int) {
				if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(bytes)); err != nil {
					t.Fatal(err)
				}
				testkit.Eventually(t, "delivered", func() bool { return largest.Load() >= int64(bytes) })
			}
			arrives(100)
			running.puller.busy.Store(true) // the server's word alone has it rebuilt, and not silence
			if err := del(r); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "rebuilt", func() bool { return r.obs.rebuilt.Load() > 0 })
			arrives(1000) // the first one may come again before it
		})
	}
}

func TestHandlerErrors(t *testing.T) {
	r := newRig(t)
	s, h := names(schemas.HopsAcked), NewHop(r.conn, schemas.HopsAcked)
	var calls atomic.Int64
	answers := map[int64]error{1: RetryAfter(time.Millisecond, errors.New("later")), 2: nil, 3: context.DeadlineExceeded, 4: Poison(errors.New("bad"))}
	running, err := h.Receive(r.ctx(), receiver(s), func(context.Context, *Msg) error { return answers[calls.Add(1)] })
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	for n := range int64(3) {
		if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(10)); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "handled", func() bool { return calls.Load() == n+2 })
	}
	testkit.Eventually(t, "the stream empty", func() bool {
		info, err := r.conn.js.Stream(r.ctx(), s.Hidden().Name)
		return err == nil && info.CachedInfo().State.Msgs == 0
	})
	for outcome, n := range map[Outcome]int64{Done: 1, Retried: 1, Late: 1, Poisoned: 1} {
		if got := r.obs.handled[outcome].Load(); got != n {
			t.Errorf("%v counted %d times, want %d", outcome, got, n)
		}
	}
	if n := r.obs.redelivered.Load(); n != 1 {
		t.Errorf("%d redeliveries counted", n)
	}
}

func TestTooLarge(t *testing.T) {
	r := newRig(t)
	var tooLarge *TooLargeError
	err := r.conn.Send(r.ctx(), "big", hidden(9<<20), nil)
	if !errors.As(err, &tooLarge) || tooLarge.Limit != r.conn.MaxPayload() || tooLarge.Size < 9<<20 {
		t.Errorf("error %v", err)
	}
}

// A receiver that is drained while NATS is away does not wait for it.
func TestDrainWithoutServer(t *testing.T) {
	for _, mode := range allHops {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			running, err := NewHop(r.conn, mode).Receive(r.ctx(), receiver(names(mode)), func(context.Context, *Msg) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			r.srv.Shutdown()
			ctx, cancel := context.WithTimeout(r.ctx(), 5*time.Second) // the client would wait for ten
			defer cancel()
			if err := running.Drain(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStopAndDrain(t *testing.T) {
	for _, mode := range allHops {
		for _, drain := range []bool{true, false} {
			t.Run(string(mode), func(t *testing.T) {
				r := newRig(t)
				s, h := names(mode), NewHop(r.conn, mode)
				var got atomic.Int64
				gate := make(chan struct{})
				rc := receiver(s)
				rc.MaxInFlight = 8
				running, err := h.Receive(r.ctx(), rc, func(context.Context, *Msg) error {
					got.Add(1)
					<-gate
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for range 8 {
					if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(10)); err != nil {
						t.Fatal(err)
					}
				}
				testkit.Eventually(t, "messages buffered", func() bool {
					n, _, _ := running.sub.Pending()
					return got.Load() == 1 && n == 8 // with the one in the handler
				})
				if !drain {
					running.Stop()
					close(gate)
					<-running.Closed()
					if got.Load() != 1 {
						t.Errorf("%d handled after Stop", got.Load()-1)
					}
					return
				}
				time.AfterFunc(10*time.Millisecond, func() { close(gate) })
				if err := running.Drain(r.ctx()); err != nil || got.Load() != 8 {
					t.Errorf("%d of 8 handled, error %v", got.Load(), err)
				}
			})
		}
	}
}
