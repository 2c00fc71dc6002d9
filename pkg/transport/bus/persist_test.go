package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

func TestLasts(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"timeout":           {context.DeadlineExceeded, false},
		"disconnected":      {nats.ErrReconnectBufExceeded, false},
		"nobody answers":    {jetstream.ErrJetStreamNotEnabled, false},
		"stream is gone":    {fmt.Errorf("reading: %w", jetstream.ErrStreamNotFound), false},
		"server stops":      {&jetstream.APIError{Code: 503, ErrorCode: 10008}, false},
		"peers are away":    {&jetstream.APIError{Code: 400, ErrorCode: codeNoPeers}, false},
		"storage is small":  {&jetstream.APIError{Code: 500, ErrorCode: codeNoStorage}, true},
		"bad configuration": {&jetstream.APIError{Code: 400, ErrorCode: 10052}, true},
		"mismatch":          {fmt.Errorf("creating: %w", &MismatchError{}), true},
		"permission":        {fmt.Errorf("%w: x", nats.ErrPermissionViolation), true},
		"closed":            {ErrClosed, true},
		"interrupted":       {fmt.Errorf("flushing: %w", nats.ErrConnectionClosed), false},
		"unknown":           {errors.New("other"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lasts(c.err); got != c.want {
				t.Errorf("lasts: %v", got)
			}
		})
	}
}

// flap takes the server away and brings it back, at random moments.
func (r *rig) flap(random *rand.Rand, times int) {
	for range times {
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		r.srv.Shutdown()
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		r.startServer()
	}
}

// begin is everything that services do on NATS before they run.
func begin(ctx context.Context, c *Conn, s schemas.Streams) error {
	if err := c.Ensure(ctx, 1, append(s.Durable(), s.Tensors([]int{0, 1})...)...); err != nil {
		return err
	}
	for _, kind := range []string{"members", "plans", "leases"} {
		if _, err := c.EnsureBucket(ctx, 1, s.Bucket(kind), 0); err != nil {
			return err
		}
	}
	for _, mode := range allHops {
		rc := receiver(s)
		rc.Name = string(mode)
		rc.Stream = names(mode).Hidden()
		rc.Stream.Name, rc.Subject = string(mode), "test."+string(mode)
		rc.Stream.Subjects = []string{rc.Subject}
		running, err := NewHop(c, mode).Receive(ctx, rc, func(context.Context, *Msg) error { return nil })
		if err != nil {
			return err
		}
		defer func() { running.Stop(); <-running.Closed() }()
	}
	q, err := c.Queue(ctx, QueueSettings{Stream: s.Sequences(), Name: "attention"})
	if err == nil {
		q.Stop()
	}
	return err
}

func TestBeginWhileTheServerRestarts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRig(t)
			random := rand.New(rand.NewPCG(seed, 1))
			flapping := make(chan struct{})
			go func() { defer close(flapping); r.flap(random, 3) }()
			defer func() { <-flapping }()
			if err := begin(r.ctx(), r.conn, names(schemas.HopsAcked)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of a connection that is closed, or a context that has ended, Ensure says once why.
func TestEnsureEnds(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	s := names(schemas.HopsAcked)
	if err := r.conn.Ensure(ctx, 1, s.Durable()...); !errors.Is(err, context.Canceled) || strings.Count(err.Error(), "creating stream") != 1 {
		t.Errorf("error %v", err)
	}
	if err := r.conn.Ensure(ctx, 1); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

func TestPersistSaysOnceWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var logged bytes.Buffer
	r.conn.log = slog.New(slog.NewTextHandler(&logged, nil))
	err := r.conn.Persist(r.ctx(), "creating everything", func(context.Context) error {
		if logged.Len() == 0 {
			return nats.ErrTimeout
		}
		return nil
	})
	lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
	if err != nil || len(lines) != 2 || !strings.Contains(lines[0], "creating everything") || !strings.Contains(lines[0], "timeout") {
		t.Errorf("error %v, logged %q", err, lines)
	}
}

// A connection that breaks in the middle of a flush is not closed for good.
func TestPersistOverABrokenFlush(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tried := 0
	err := r.conn.Persist(r.ctx(), "flushing", func(ctx context.Context) error {
		if tried++; tried == 1 {
			return fmt.Errorf("flushing: %w", nats.ErrConnectionClosed)
		}
		return r.conn.nc.FlushWithContext(ctx)
	})
	if err != nil || tried != 2 {
		t.Errorf("error %v after %d attempts", err, tried)
	}
}

func TestPersistEnds(t *testing.T) {
	never := func(context.Context) error { return nats.ErrTimeout }
	t.Run("context", func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(r.ctx())
		tried := 0
		err := r.conn.Persist(ctx, "waiting", func(ctx context.Context) error {
			if tried++; tried == 3 {
				cancel()
			}
			return never(ctx)
		})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, nats.ErrTimeout) || tried != 3 {
			t.Errorf("error %v", err)
		}
	})
	t.Run("disconnected", func(t *testing.T) {
		r := newRig(t)
		r.srv.Shutdown()
		testkit.Eventually(t, "the connection is lost", func() bool { return !r.conn.Connected() })
		ctx, cancel := context.WithCancel(r.ctx())
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := begin(ctx, r.conn, names(schemas.HopsAcked)); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		r := newRig(t)
		time.AfterFunc(20*time.Millisecond, func() { _ = r.conn.nc.Publish(strings.Repeat("x", 5000), nil) })
		err := r.conn.Persist(r.ctx(), "waiting", never)
		if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "maximum control line") {
			t.Errorf("error %v", err)
		}
		<-r.conn.Closed()
	})
	t.Run("mismatch", func(t *testing.T) {
		r := newRig(t)
		s := names(schemas.HopsAcked).Tokens()
		if err := r.conn.Ensure(r.ctx(), 1, s); err != nil {
			t.Fatal(err)
		}
		s.MaxAge *= 2
		var mismatch *MismatchError
		if err := r.conn.Ensure(r.ctx(), 1, s); !errors.As(err, &mismatch) {
			t.Errorf("error %v", err)
		}
	})
}

// denied is a connection of a user who may not publish to some subjects.
func denied(t *testing.T, subjects ...string) *Conn {
	t.Helper()
	return connectTo(t, &server.Options{
		JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: subjects},
		}}},
	}, Settings{})
}

// connectTo is a connection to a server of its own, whose user, if it has any, is u.
func connectTo(t *testing.T, o *server.Options, s Settings) *Conn {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, true
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(testkit.Patience) {
		t.Fatal("the server does not start")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	s.Logger = quiet()
	c, err := Connect(ctx, Config{URL: strings.Replace(srv.ClientURL(), "//", "//u:p@", 1)}, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A missing permission ends the start, although the server does not answer
// what it does not allow.
func TestPersistSeesMissingPermissions(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	err := denied(t, "$JS.API.STREAM.INFO.>").Ensure(ctx, 1, names(schemas.HopsAcked).Tokens())
	if !errors.Is(err, nats.ErrPermissionViolation) || ctx.Err() != nil || !strings.Contains(err.Error(), "STREAM.INFO.test_TOKENS_m") {
		t.Errorf("error %v", err)
	}
}

// Of who has patience, no call waits for longer for a server that has no JetStream.
func TestPatienceWithoutJetStream(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	c := connectTo(t, &server.Options{}, Settings{Patience: 50 * time.Millisecond})
	for name, call := range map[string]func() error{
		"create": func() error { return c.EnsureObjects(ctx, 1, "b") },
		"store":  func() error { _, err := c.StoreBytes(ctx, "a", nil, nil); return err },
		"look":   func() error { _, _, err := c.Subjects(ctx, "OBJ_b", ">"); return err },
		"read":   func() error { _, err := c.Last(ctx, "OBJ_b", "a"); return err },
		"remove": func() error { return c.Empty(ctx, "OBJ_b") },
	} {
		err := call()
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) || !strings.Contains(err.Error(), "in vain for 50ms") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Patience is for a server that does nothing; while there is none, others count.
func TestFutile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connected := true
		f := futile{patience: 10 * time.Second, connected: func() bool { return connected }}
		for i, step := range []struct {
			after     time.Duration
			connected bool
			want      bool
		}{{0, true, false}, {9 * time.Second, true, false}, {5 * time.Second, false, false}, {0, true, false}, {9 * time.Second, true, false}, {time.Second, true, true}} {
			time.Sleep(step.after)
			connected = step.connected
			if got := f.tooLong(); got != step.want {
				t.Errorf("failure %d: %v", i, got)
			}
		}
		if forever := (futile{connected: f.connected, since: f.since}); forever.tooLong() {
			t.Error("who has no patience to lose lost it")
		}
	})
}

// While the server is away the log says so once, however much waits for it.
func TestAwayIsToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var logged lines
	r.conn.log = slog.New(slog.NewTextHandler(&logged, nil))
	s := names(schemas.HopsUnacked)
	for layer := range 20 {
		running, err := NewHop(r.conn, schemas.HopsUnacked).Receive(r.ctx(), Receiver{
			Stream: s.Expert(layer), Name: "f", Subject: s.Subjects.Expert(layer, "f"),
		}, func(context.Context, *Msg) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { running.Stop(); <-running.Closed() }()
	}
	if err := r.conn.Ensure(r.ctx(), 1, s.Tokens()); err != nil {
		t.Fatal(err)
	}
	q := r.queue(s, time.Minute)
	ctx, cancel := context.WithCancel(r.ctx())
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = q.Pull(ctx, 1) })
	waiting.Go(func() {
		_ = r.conn.Follow(ctx, s.Tokens().Name, []string{s.Subjects.AnyToken()}, Place{}, func(Stored) bool { return true })
	})
	defer waiting.Wait()
	defer cancel()
	r.srv.Shutdown()
	time.Sleep(quietFor + quietFor/2) // from quietFor on, what is tried again is told
	if n := logged.count.Load(); n != 1 {
		t.Errorf("%d lines", n)
	}
	r.startServer()
	testkit.Eventually(t, "all are back", func() bool { return r.obs.rebuilt.Load() >= 20 })
}

// What fails for long is told once, and so is its end; the time without a server does
// not count.
func TestTrouble(t *testing.T) {
	const brief, long = quietFor / 2, quietFor
	connected := true
	fails, works := func(t *trouble) { t.is(ErrAckLost) }, (*trouble).over
	away := func(t *trouble) { connected = false; fails(t); connected = true }
	type event struct {
		after time.Duration
		what  func(*trouble)
	}
	for name, c := range map[string]struct {
		events []event
		want   int64
	}{
		"brief":                    {[]event{{0, fails}, {brief, fails}, {0, works}}, 0},
		"long":                     {[]event{{0, fails}, {long, fails}, {long, fails}, {0, works}}, 2},
		"again and again":          {[]event{{0, fails}, {brief, works}, {brief, fails}, {brief, fails}, {0, works}}, 0},
		"no server":                {[]event{{0, fails}, {long, away}, {long, fails}, {0, works}}, 0},
		"no server, then with one": {[]event{{0, away}, {long, fails}, {long, fails}, {0, works}}, 2},
		"told, then no server":     {[]event{{0, fails}, {long, fails}, {0, away}, {long, works}}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var logged lines
			tr := trouble{log: slog.New(slog.NewTextHandler(&logged, nil)), connected: func() bool { return connected }}
			for _, e := range c.events {
				time.Sleep(e.after)
				e.what(&tr)
			}
			if n := logged.count.Load(); n != c.want {
				t.Errorf("%s: %d lines, want %d", name, n, c.want)
			}
		})
	}
}

// lines counts what is written.
type lines struct{ count atomic.Int64 }

func (l *lines) Write(b []byte) (int, error) {
	l.count.Add(1)
	return len(b), nil
}

// ending is a context that has ended when it is asked for the last time.
type ending struct {
	context.Context
	asked, last int
}

func (e *ending) Err() error {
	if e.asked++; e.asked < e.last {
		return nil
	}
	return context.Canceled
}

// Whoever is stopped right behind a pause, rather than in it, is told so, too.
func TestInsistEndsBehindAPause(t *testing.T) {
	ctx := &ending{Context: context.Background(), last: 3} // after the attempt, before the pause, behind it
	err := newRig(t).conn.insist(ctx, "storing", func() error { return ErrAckLost })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrAckLost) || strings.Contains(err.Error(), "%!") {
		t.Errorf("error %v", err)
	}
}
