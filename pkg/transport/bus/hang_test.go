package bus

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// waiting is how many pull requests a consumer has that nothing came for.
func (r *rig) waiting(stream, consumer string) int {
	c, err := r.conn.js.Consumer(r.ctx(), stream, consumer)
	if err != nil {
		r.t.Fatal(err)
	}
	return c.CachedInfo().NumWaiting
}

// A replica that hangs gets nothing for long: what it has asked for expires.
func TestHungReceiverStarvesNobody(t *testing.T) {
	for _, mode := range []schemas.Hops{schemas.HopsAcked, schemas.HopsUnacked} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s, h := names(mode), NewHop(r.conn, mode)
			hung := make(chan struct{})
			sibling := r.connect(nil)
			t.Cleanup(sibling.Close)
			first, err := NewHop(sibling, mode).Receive(r.ctx(), receiver(s), func(ctx context.Context, _ *Msg) error {
				close(hung)
				<-ctx.Done()
				return ctx.Err()
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { first.Stop(); <-first.Closed() })
			send := func() {
				if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(10)); err != nil {
					t.Fatal(err)
				}
			}
			send()
			<-hung
			testkit.Eventually(t, "no request of the hung one is left", func() bool { return r.waiting(s.Hidden().Name, "gate") == 0 })
			var got atomic.Int64
			running, err := h.Receive(r.ctx(), receiver(s), func(context.Context, *Msg) error { got.Add(1); return nil })
			if err != nil {
				t.Fatal(err)
			}
			defer running.Stop()
			for range 100 {
				send()
			}
			testkit.Eventually(t, "the healthy one has all", func() bool { return got.Load() == 100 })
		})
	}
}

// So does work: a replica that hangs while it waits for some keeps none for long.
func TestHungQueueStarvesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := names(schemas.HopsCore)
	hung := r.queue(s, time.Minute)
	inbox, err := r.conn.nc.SubscribeSync(r.conn.nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.pull(hung.next, inbox.Subject, pullRequest{batch: 1, expires: pullExpires}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it has asked", func() bool { return r.waiting(s.Sequences().Name, hung.s.Name) == 1 })
	testkit.Eventually(t, "its request has expired", func() bool { return r.waiting(s.Sequences().Name, hung.s.Name) == 0 })
}

// An idle receiver renews its requests, and is not taken for one without a server.
func TestIdleReceiverIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, h := names(schemas.HopsUnacked), NewHop(r.conn, schemas.HopsUnacked)
	got := make(chan string, 1)
	running, err := h.Receive(r.ctx(), receiver(s), func(context.Context, *Msg) error { got <- "it"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	testkit.Eventually(t, "it has renewed twice, and was taken for nothing else", func() bool {
		began, rebuilt := running.puller.heard.Load(), r.obs.rebuilt.Load()
		testkit.Eventually(t, "it has renewed twice", func() bool { return running.puller.heard.Load()-began > int64(pullExpires) })
		return r.obs.rebuilt.Load() == rebuilt // unless this machine stood still for so long
	})
	if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(10)); err != nil {
		t.Fatal(err)
	}
	r.expect(got, "it")
}

// A receiver is silent for as long as it hears nothing, also when the host's clock is
// set meanwhile.
func TestSilenceWhileTheClockIsSet(t *testing.T) {
	now := time.Now()
	p := &puller{began: now}
	p.hears(now.Add(time.Second))
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		set := testkit.WallSet(t, now.Add(2*time.Second), by)
		if quiet := p.quiet(set); quiet != time.Second {
			t.Errorf("set by %v: quiet for %v", by, quiet)
		}
	}
}

// relay is a way to a server that can be held: it stays open then, and nothing passes.
type relay struct {
	addr string
	pass sync.RWMutex // held for writing: nothing passes
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = l.Close() })
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() { r.copy(server, client) })
			running.Go(func() { r.copy(client, server) })
		}
	})
	return r
}

func (r *relay) copy(to, from net.Conn) {
	defer func() { _ = to.Close() }()
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		r.pass.RLock()
		_, failed := to.Write(buf[:n])
		r.pass.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

// A server that hangs is noticed long before its connection is given up, and so is its return.
func TestHungServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	way := newRelay(t, r.addr)
	l := &links{}
	c, err := Connect(r.ctx(), Config{URL: "nats://" + way.addr}, Settings{Observer: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	gap := c.Gap()
	way.pass.Lock()
	testkit.Eventually(t, "it hangs", func() bool { return !c.Hears() })
	if !c.Connected() {
		t.Error("the connection was given up")
	}
	way.pass.Unlock()
	testkit.Eventually(t, "it is back", c.Hears)
	if !gap() {
		t.Error("the hang was no gap")
	}
	if n := c.nc.Stats().Reconnects; n > 0 {
		t.Errorf("%d reconnections", n)
	}
	testkit.Eventually(t, "it was told to be away, and back", func() bool { return slices.Equal(l.seen(), []Link{Opening, Connected, Away, Connected}) })
}

// Where there is another server, one that hangs is left.
func TestHungServerIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ways := map[string]*relay{}
	var urls []string
	for range 2 {
		way := newRelay(t, r.addr)
		ways["nats://"+way.addr] = way
		urls = append(urls, "nats://"+way.addr)
	}
	c, err := Connect(r.ctx(), Config{URL: strings.Join(urls, ",")}, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	first := c.nc.ConnectedUrl()
	ways[first].pass.Lock()
	t.Cleanup(ways[first].pass.Unlock)
	testkit.Eventually(t, "it goes to the other one", func() bool { now := c.nc.ConnectedUrl(); return now != "" && now != first && c.Hears() })
}

// A server is left sooner than the next ones: where all are silent, they are not what hangs.
func TestPulse(t *testing.T) {
	p := pulse{patience: leaveAfter}
	for i, step := range []struct {
		passed        time.Duration
		lives         bool
		useless, hung bool
	}{
		{pulseEvery, true, false, false}, {pulseEvery, false, false, false}, {pulseEvery, false, false, true},
		{pulseEvery, true, false, false}, {time.Hour, false, true, true}, {0, true, false, false},
	} {
		if useless := p.beat(step.passed, step.lives); useless != step.useless || p.hung.Load() != step.hung {
			t.Errorf("step %d: useless %v, hung %v", i, useless, p.hung.Load())
		}
	}
	p.patience = 4 * leaveAfter
	if p.beat(calmAfter-1, true); p.patience != 4*leaveAfter {
		t.Error("a short calm is enough")
	}
	if p.beat(1, true); p.patience != leaveAfter {
		t.Error("a long one is not")
	}
}
