package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// tape is a stream in memory for followers. It can be made anew, or be closed.
type tape struct {
	bus.LogStore

	mu          sync.Mutex
	changed     chan struct{} // closed and made again at each change
	incarnation uint64
	messages    []bus.Stored
	closed      bool
	readers     int
}

func newTape() *tape { return &tape{changed: make(chan struct{}), incarnation: 1} }

func (p *tape) change(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	close(p.changed)
	p.changed = make(chan struct{})
}

// add stores a message of a shard.
func (p *tape) add(shard int) {
	p.change(func() {
		n := uint64(len(p.messages) + 1)
		p.messages = append(p.messages, bus.Stored{
			Subject: fmt.Sprintf("test.token.m.%d.r", shard), Sequence: n, Incarnation: p.incarnation, Data: fmt.Append(nil, n),
		})
	})
}

func (p *tape) replace() { p.change(func() { p.incarnation++; p.messages = nil }) }
func (p *tape) close()   { p.change(func() { p.closed = true }) }

func (p *tape) reading() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readers
}

func (p *tape) Try(_ string, fn func() error) error { return fn() }

var errClosed = errors.New("closed")

// Follow does what the bus's does.
func (p *tape) Follow(ctx context.Context, _ string, subjects []string, after bus.Place, fn func(bus.Stored) bool) error {
	p.change(func() { p.readers++ })
	defer p.change(func() { p.readers-- })
	for first := true; ; first = false {
		p.mu.Lock()
		rest, changed := p.messages[min(after.Sequence, uint64(len(p.messages))):], p.changed
		replaced := after.Incarnation != 0 && after.Incarnation != p.incarnation || first && after.Sequence > uint64(len(p.messages))
		after.Incarnation = p.incarnation
		closed := p.closed
		p.mu.Unlock()
		switch {
		case closed:
			return errClosed
		case replaced:
			return bus.ErrReplaced
		}
		for _, m := range rest {
			after.Sequence = m.Sequence
			wanted := slices.ContainsFunc(subjects, func(s string) bool {
				return s == names.Subjects.AnyToken() || s == "test.token.m."+shardToken(m.Subject)+".*"
			})
			if wanted && !fn(m) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// following is one that follows a shard in a feed.
type following struct {
	shard int
	stop  context.CancelFunc
	end   chan error

	mu  sync.Mutex
	got []uint64
}

func follow(t *testing.T, f *feed, shard int, after bus.Place) *following {
	ctx, stop := context.WithCancel(t.Context())
	g := &following{shard: shard, stop: stop, end: make(chan error, 1)}
	go func() {
		g.end <- f.follow(ctx, shard, after, func(m bus.Stored) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.got = append(g.got, m.Sequence)
		})
	}()
	t.Cleanup(stop)
	return g
}

func (g *following) last() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.got) == 0 {
		return 0
	}
	return g.got[len(g.got)-1]
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, ok)
}

// However followers come and go, each gets all of its shard's messages, once and in
// order: who comes again goes on behind what it had.
func TestFeedIsWhole(t *testing.T) {
	p := newTape()
	f := newFeed(p, names)
	random := rand.New(rand.NewPCG(1, 2))
	now, had := map[int]*following{}, map[int][]uint64{}
	end := func(shard int) {
		g := now[shard]
		delete(now, shard)
		g.stop()
		if err := <-g.end; !errors.Is(err, context.Canceled) {
			t.Fatalf("shard %d: %v", shard, err)
		}
		had[shard] = append(had[shard], g.got...)
	}
	for range 3000 {
		shard := random.IntN(schemas.LogShards)
		switch {
		case random.IntN(8) > 0:
			p.add(shard)
		case now[shard] != nil:
			end(shard)
		default:
			place := bus.Place{Incarnation: 1}
			if had := had[shard]; len(had) > 0 {
				place.Sequence = had[len(had)-1]
			}
			now[shard] = follow(t, f, shard, place)
		}
	}
	want := map[int][]uint64{}
	for _, m := range p.messages {
		for shard := range schemas.LogShards {
			if shardToken(m.Subject) == fmt.Sprint(shard) {
				want[shard] = append(want[shard], m.Sequence)
			}
		}
	}
	for shard, all := range want {
		if now[shard] == nil {
			now[shard] = follow(t, f, shard, bus.Place{Sequence: lastOf(had[shard])})
		}
		eventually(t, "a shard to be read", func() bool { return max(lastOf(had[shard]), now[shard].last()) == lastOf(all) })
		end(shard)
		if !slices.Equal(had[shard], all) {
			t.Errorf("shard %d: %d messages, want %d; or not in order", shard, len(had[shard]), len(all))
		}
	}
}

func lastOf(all []uint64) uint64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// All shards share one consumer, and its filter is the stream's own subject.
func TestFeedIsOneConsumer(t *testing.T) {
	p := newTape()
	f := newFeed(p, names)
	var all []*following
	for shard := range schemas.LogShards {
		all = append(all, follow(t, f, shard, bus.Place{}))
		p.add(shard)
	}
	for _, g := range all {
		eventually(t, "its message", func() bool { return g.last() > 0 })
	}
	eventually(t, "a round of all", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.round != nil && slices.Equal(f.round.subjects(names.Subjects), []string{names.Subjects.AnyToken()})
	})
	if p.reading() != 1 {
		t.Errorf("%d consumers", p.reading())
	}
	if err := f.follow(t.Context(), 0, bus.Place{}, nil); err == nil {
		t.Error("a shard is followed twice")
	}
	for _, g := range all {
		g.stop()
		if err := <-g.end; !errors.Is(err, context.Canceled) {
			t.Errorf("ended by %v", err)
		}
	}
	eventually(t, "no consumer is left", func() bool { return p.reading() == 0 })
}

// What ends a round for good, its readers hear of, after what came before it; the feed
// works again afterwards.
func TestFeedEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*tape)
		want error
	}{"replaced": {(*tape).replace, bus.ErrReplaced}, "closed": {(*tape).close, errClosed}} {
		t.Run(name, func(t *testing.T) {
			p := newTape()
			f := newFeed(p, names)
			both := []*following{follow(t, f, 1, bus.Place{}), follow(t, f, 2, bus.Place{})}
			p.add(1)
			p.add(2)
			for _, g := range both {
				eventually(t, "its message", func() bool { return g.last() > 0 })
			}
			c.end(p)
			for _, g := range both {
				if err := <-g.end; !errors.Is(err, c.want) {
					t.Errorf("shard %d: %v", g.shard, err)
				}
			}
			if p.closed {
				return
			}
			again := follow(t, f, 1, bus.Place{})
			p.add(1)
			eventually(t, "a message of the new stream", func() bool { return again.last() == 1 })
		})
	}
}

// Who has read an older stream than the others hears so; they go on.
func TestFeedOfAnotherStream(t *testing.T) {
	p := newTape()
	p.replace()
	f := newFeed(p, names)
	p.add(1)
	now := follow(t, f, 1, bus.Place{})
	eventually(t, "its message", func() bool { return now.last() == 1 })
	old := follow(t, f, 2, bus.Place{Incarnation: 1})
	if err := <-old.end; !errors.Is(err, bus.ErrReplaced) {
		t.Error(err)
	}
	p.add(1)
	eventually(t, "another message", func() bool { return now.last() == 2 })
}

// A reader that is busy keeps nobody waiting until its mailbox is full, and nobody once
// it has left.
func TestMailbox(t *testing.T) {
	b := newMailbox()
	half := bus.Stored{Data: make([]byte, maxWaiting/2)}
	whole := bus.Stored{Data: make([]byte, 2*maxWaiting)}
	full, cancel := context.WithCancel(t.Context())
	cancel()
	if !b.put(full, whole) || b.put(full, half) {
		t.Error("one message has room, however large it is, and no second one beside it")
	}
	done := make(chan bool)
	go func() { done <- b.put(t.Context(), half) }()
	<-b.filled
	if got := b.swap(nil); len(got) != 1 || !<-done {
		t.Errorf("%d messages", len(got))
	}
	if got := b.swap(nil); len(got) != 1 || len(got[0].Data) != len(half.Data) {
		t.Errorf("%d messages", len(got))
	}
	b.put(full, whole)
	go func() { done <- b.put(t.Context(), half) }()
	close(b.left)
	if !<-done {
		t.Error("nobody reads any more, but the next message waits")
	}
}
