package tokenlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// following is one that follows a shard in a feed.
type following struct {
	shard int
	stop  context.CancelFunc
	end   chan error

	mu  sync.Mutex
	got []uint64
}

func follow(t *testing.T, f *feed, shard int, after bus.Place) *following {
	return begin(t, shard, func(ctx context.Context, take func(bus.Stored)) error {
		_, err := f.follow(ctx, shard, after, take)
		return err
	})
}

// begin follows a shard in some way.
func begin(t *testing.T, shard int, run func(context.Context, func(bus.Stored)) error) *following {
	ctx, stop := context.WithCancel(t.Context())
	g := &following{shard: shard, stop: stop, end: make(chan error, 1)}
	go func() { g.end <- run(ctx, g.take) }()
	t.Cleanup(stop)
	return g
}

func (g *following) take(m bus.Stored) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.got = append(g.got, m.Sequence)
}

func (g *following) all() []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.got)
}

func (g *following) last() uint64 { return lastOf(g.all()) }

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
	if _, err := f.follow(t.Context(), 0, bus.Place{}, nil); err == nil {
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

// remade is a tape that is made anew after it was asked which stream is there, and before
// that is known; meanwhile is called then.
type remade struct {
	*tape
	meanwhile func()
}

func (p *remade) State(ctx context.Context, stream string) (bus.StreamState, error) {
	state, err := p.tape.State(ctx, stream)
	p.meanwhile()
	return state, err
}

// Who joins while the server is asked which stream is there, and has read one that was made
// since, goes on.
func TestFeedOfAStreamMadeSince(t *testing.T) {
	p := &remade{tape: newTape()}
	p.incarnation = 2
	f := newFeed(p, names)
	var since *following
	p.meanwhile = sync.OnceFunc(func() {
		p.replace()
		since = follow(t, f, 3, bus.Place{Incarnation: 3})
		eventually(t, "it has joined", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.readers[3] != nil
		})
	})
	p.add(1)
	now := follow(t, f, 1, bus.Place{})
	eventually(t, "its message", func() bool { return now.last() == 1 })
	old := follow(t, f, 2, bus.Place{Incarnation: 1})
	for _, g := range []*following{now, old} {
		if err := <-g.end; !errors.Is(err, bus.ErrReplaced) {
			t.Errorf("shard %d: %v", g.shard, err)
		}
	}
	p.add(3)
	eventually(t, "a message", func() bool { return since.last() == 1 || len(since.end) > 0 })
	if len(since.end) > 0 {
		t.Errorf("who follows the stream that is there heard: %v", <-since.end)
	}
}

// Who has read another stream than the one that is there hears so, and the others go on,
// whether or not the clock had been set back when it was made; also when the server
// does not say at once which one is there.
func TestFeedOfAnotherStream(t *testing.T) {
	for _, tc := range []struct {
		name      string
		gone      uint64
		unsettled int // questions that are not answered
	}{{"older", 1, 0}, {"later by its clock", 3, 0}, {"no answer", 3, 2}} {
		t.Run(tc.name, func(t *testing.T) {
			p := newTape()
			p.incarnation, p.unsettled = 2, tc.unsettled
			f := newFeed(p, names)
			p.add(1)
			now := follow(t, f, 1, bus.Place{})
			eventually(t, "its message", func() bool { return now.last() == 1 })
			old := follow(t, f, 2, bus.Place{Incarnation: tc.gone})
			if err := <-old.end; !errors.Is(err, bus.ErrReplaced) {
				t.Error(err)
			}
			p.add(1)
			eventually(t, "another message", func() bool { return now.last() == 2 || len(now.end) > 0 })
			if len(now.end) > 0 {
				t.Errorf("who follows the stream that is there heard: %v", <-now.end)
			}
		})
	}
}

// followShard follows a shard as its owner does.
func followShard(t *testing.T, l *Log, shard int, after bus.Place) *following {
	return begin(t, shard, func(ctx context.Context, take func(bus.Stored)) error {
		return l.followShard(ctx, shard, after, take)
	})
}

// Who begins from a place that the stream does not have hears so, also beside a shard that
// is followed, and also when the server does not say at once what it has.
func TestPlaceThatIsNotThere(t *testing.T) {
	for _, tc := range []struct {
		name      string
		place     bus.Place
		unsettled int
	}{
		{"beyond", bus.Place{Incarnation: 1, Sequence: 2}, 0},
		{"the last number there is", bus.Place{Incarnation: 1, Sequence: math.MaxUint64}, 0},
		{"of no stream", bus.Place{Sequence: 2}, 0},
		{"of another stream", bus.Place{Incarnation: 2, Sequence: 1}, 0},
		{"no answer", bus.Place{Incarnation: 1, Sequence: 2}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newTape()
			l := New(p, names, Settings{})
			other := followShard(t, l, 1, bus.Place{})
			p.add(1)
			eventually(t, "its message", func() bool { return other.last() == 1 })
			p.mu.Lock()
			p.unsettled = tc.unsettled
			p.mu.Unlock()
			if err := <-followShard(t, l, 2, tc.place).end; !errors.Is(err, bus.ErrReplaced) {
				t.Error(err)
			}
			p.add(1)
			eventually(t, "another message", func() bool { return other.last() == 2 })
		})
	}
}

// A server of a cluster may lack what others have of the stream's end, and be behind it a
// little later. Who begins there waits for it.
func TestPlaceThatComesLate(t *testing.T) {
	p := newTape()
	p.clustered = true
	l := New(p, names, Settings{})
	p.add(2)
	late := followShard(t, l, 2, bus.Place{Incarnation: 1, Sequence: 2})
	eventually(t, "a question", func() bool { return p.questions() > 0 })
	p.add(2)
	p.add(2)
	eventually(t, "what is behind the place", func() bool { return len(late.all()) > 0 || len(late.end) > 0 })
	if got := late.all(); !slices.Equal(got, []uint64{3}) {
		t.Errorf("got %v", got)
	}
	never := followShard(t, l, 1, bus.Place{Incarnation: 1, Sequence: 99})
	eventually(t, "another question", func() bool { return p.questions() > 2 })
	never.stop()
	if err := <-never.end; !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
}

// A shard whose reader is slow keeps no other waiting, however much waits for it; it gets
// all of its messages, once and in order, and is followed beside the others again.
func TestFeedOfSlowShard(t *testing.T) {
	p := newTape()
	l := New(p, names, Settings{})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	followed := func(shard int, slow <-chan struct{}) *following {
		return begin(t, shard, func(ctx context.Context, take func(bus.Stored)) error {
			return l.followShard(ctx, shard, bus.Place{}, func(m bus.Stored) { <-slow; take(m) })
		})
	}
	closed := make(chan struct{})
	close(closed)
	slow, quick := followed(1, gate), followed(2, closed)
	together := func() bool {
		l.feed.mu.Lock()
		defer l.feed.mu.Unlock()
		return len(l.feed.readers) == 2
	}
	eventually(t, "both are followed", together)
	want := map[*following][]uint64{}
	for i := range uint64(20) {
		p.addSized(1, maxWaiting/4)
		p.add(2)
		want[slow], want[quick] = append(want[slow], 2*i+1), append(want[quick], 2*i+2)
	}
	eventually(t, "all messages of the other", func() bool { return quick.last() == 40 })
	if got := slow.all(); len(got) > 0 {
		t.Errorf("the slow one has had %d", len(got))
	}
	open()
	eventually(t, "all messages", func() bool { return slow.last() == 39 })
	eventually(t, "both are followed, by one consumer", func() bool { return together() && p.reading() == 1 })
	for g, all := range want {
		if got := g.all(); !slices.Equal(got, all) {
			t.Errorf("shard %d: got %v", g.shard, got)
		}
	}
}

// However large a message is, an empty mailbox takes it, and no second one beside it.
func TestMailbox(t *testing.T) {
	b := newMailbox()
	half := bus.Stored{Data: make([]byte, maxWaiting/2)}
	whole := bus.Stored{Data: make([]byte, 2*maxWaiting)}
	for _, c := range []struct {
		m    bus.Stored
		room bool
	}{{whole, true}, {half, false}, {whole, false}} {
		if b.put(c.m) != c.room {
			t.Errorf("%d bytes, room %v", len(c.m.Data), !c.room)
		}
	}
	<-b.filled
	if got := b.swap(nil); len(got) != 1 || !b.put(half) || b.put(half) {
		t.Errorf("%d messages", len(got))
	}
}
