package bus

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testcluster"
	"github.com/switchyard/switchyard/pkg/transport/leaving"
	"github.com/switchyard/switchyard/schemas"
)

// inCluster connects to a cluster.
func inCluster(t *testing.T, url string) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	c, err := Connect(ctx, Config{URL: url}, Settings{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What must survive has three copies, and tensors one. Tensors flow again when
// the server that had their stream is gone, whoever they come from.
func TestClusterLosesTheServerOfTensors(t *testing.T) {
	servers := testcluster.Start(t)
	c, s := inCluster(t, servers.URL()), names(schemas.HopsUnacked)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := c.Ensure(ctx, 0, s.Sequences()); err != nil {
		t.Fatal(err)
	}
	var got atomic.Int64
	h := NewHop(c, schemas.HopsUnacked)
	running, err := h.Receive(ctx, receiver(s), func(context.Context, *Msg) error { got.Add(1); return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { running.Stop(); <-running.Closed() }()
	if n := replicas(t, c, s.Sequences().Name); n != 3 {
		t.Errorf("%d copies of sequences", n)
	}
	if n := replicas(t, c, s.Hidden().Name); n != 1 {
		t.Errorf("%d copies of tensors", n)
	}
	servers.Named(t, info(t, c, s.Hidden().Name).Cluster.Leader).Shutdown()
	testkit.Eventually(t, "tensors flow again", func() bool {
		_ = h.Send(ctx, s.Subjects.Hidden(0), hidden(1)) // disconnected, for a moment
		return got.Load() > 0
	})
}

func info(t *testing.T, c *Conn, stream string) *jetstream.StreamInfo {
	t.Helper()
	var s jetstream.Stream
	testkit.Eventually(t, "this server knows of "+stream, func() bool { // later than who made it
		var err error
		s, err = c.js.Stream(t.Context(), stream)
		return err == nil
	})
	return s.CachedInfo()
}

func replicas(t *testing.T, c *Conn, stream string) int {
	t.Helper()
	return info(t, c, stream).Config.Replicas
}

// What holds of a log with three copies.
func TestReplicatedLog(t *testing.T) {
	c, s := inCluster(t, testcluster.Start(t).URL()), names(schemas.HopsCore)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := c.Ensure(ctx, 0, s.Tokens()); err != nil {
		t.Fatal(err)
	}
	t.Run("a leader that is behind is waited for", func(t *testing.T) { awaitLeader(ctx, t, c, s) })
	t.Run("of two at one place one is stored", func(t *testing.T) { storeTwice(ctx, t, c, s.Subjects.Token("twice")) })
}

// A leader that has not caught up is not a stream that was made anew.
func awaitLeader(ctx context.Context, t *testing.T, c *Conn, s schemas.Streams) {
	var state StreamState
	testkit.Eventually(t, "this server knows of the stream", func() bool {
		var err error
		state, err = c.State(ctx, s.Tokens().Name)
		return err == nil
	})
	subject, last := s.Subjects.Token("r"), func(Stored) bool { return false }
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := c.Follow(short, s.Tokens().Name, []string{subject}, Place{Incarnation: state.Incarnation, Sequence: 2}, last); errors.Is(err, ErrReplaced) {
		t.Fatal(err)
	}
	for range 3 { // the first two are those that were read before
		if _, err := c.StoreBytes(ctx, subject, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Follow(ctx, s.Tokens().Name, []string{subject}, Place{Incarnation: state.Incarnation, Sequence: 2}, last); err != nil {
		t.Error(err)
	}
	if err := c.Follow(ctx, s.Tokens().Name, []string{subject}, Place{Incarnation: state.Incarnation + 1, Sequence: 2}, last); !errors.Is(err, ErrReplaced) {
		t.Errorf("another incarnation: %v", err)
	}
}

// Whichever of its two codes the server has for it, a conflict is one.
func storeTwice(ctx context.Context, t *testing.T, c *Conn, subject string) {
	for range 20 {
		before, err := c.Last(ctx, names(schemas.HopsCore).Tokens().Name, subject)
		if err != nil && !errors.Is(err, ErrNoMessage) {
			t.Fatal(err)
		}
		expected := nats.Header{nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(before.Sequence, 10)}}
		both := make(chan error, 2)
		for range 2 {
			go func() { _, err := c.storeOnce(ctx, subject, nil, expected); both <- err }()
		}
		stored := 0
		for range 2 {
			if err := <-both; err == nil {
				stored++
			} else if !IsWrongSequence(err) {
				t.Fatal(err)
			}
		}
		if stored != 1 {
			t.Fatalf("%d were stored", stored)
		}
	}
}

func TestSilences(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	for _, c := range []struct {
		name  string
		quiet []time.Time
		now   time.Time
		want  bool
	}{
		{"heard of", nil, at(5000), false},
		{"silent for a moment", []time.Time{at(100)}, at(1000), false},
		{"silent for long", []time.Time{at(100)}, at(1100), true},
		{"the longest silence counts", []time.Time{at(1000), at(100), at(900)}, at(1100), true},
	} {
		s := silences{}
		for _, since := range c.quiet {
			s.quiet("HIDDEN", since)
		}
		if got := s.abandoned("HIDDEN", c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestFruitless(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no acknowledgement": {ErrAckLost, true},
		"no answer":          {context.DeadlineExceeded, true},
		"no leader":          {jetstream.ErrNoStreamResponse, true},
		"cut off":            {&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		"full":               {&jetstream.APIError{Code: 503, ErrorCode: codeStreamStoreFailed}, false},
		"refused":            {&jetstream.APIError{Code: 400}, false},
		"not permitted":      {errors.Join(nats.ErrPermissionViolation, context.DeadlineExceeded), false},
		"disconnected":       {nats.ErrDisconnected, false},
	} {
		if got := fruitless(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestStreak(t *testing.T) {
	type event struct {
		at  time.Duration
		err error
	}
	for name, c := range map[string]struct {
		events []event
		want   time.Duration
	}{
		"nothing":             {nil, 0},
		"one failure":         {[]event{{0, ErrAckLost}}, 0},
		"several":             {[]event{{0, ErrAckLost}, {4, context.DeadlineExceeded}, {9, ErrAckLost}}, 9},
		"a success ends it":   {[]event{{0, ErrAckLost}, {4, nil}, {5, ErrAckLost}, {7, ErrAckLost}}, 2},
		"what is long over":   {[]event{{0, ErrAckLost}, {leaving.After + 1, ErrAckLost}, {leaving.After + 3, ErrAckLost}}, 2},
		"others do not count": {[]event{{0, ErrAckLost}, {4, nats.ErrDisconnected}}, 0},
	} {
		var s streak
		begun := time.Now()
		for _, e := range c.events {
			s.note(e.err, begun.Add(e.at))
		}
		if got := s.Length(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A server where JetStream has done nothing for long is left, if there is another.
func TestUselessServerIsLeft(t *testing.T) {
	a, b := newRig(t), newRig(t)
	c := inCluster(t, a.srv.URL()+","+b.srv.URL())
	first, now := c.nc.ConnectedUrl(), time.Now()
	c.leaveUseless()
	if there := c.nc.ConnectedUrl(); there != first {
		t.Fatalf("it left %s for %s without need", first, there)
	}
	c.trials.storing.note(ErrAckLost, now)
	c.trials.asking.note(nil, now) // a server that is cut off knows what it knew
	c.trials.storing.note(ErrAckLost, now.Add(leaving.After))
	c.leaveUseless()
	testkit.Eventually(t, "it is at the other server", func() bool { return c.Connected() && c.nc.ConnectedUrl() != first })
}
