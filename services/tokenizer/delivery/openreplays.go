package delivery

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// Bounds of the streams that a replica sends beside those of its shards: each
// is a consumer of the token log until the request ends or its reader goes.
// Of all of them, the requests of one tenant alone have half.
const (
	maxStreams           = 2048
	maxStreamsPerRequest = 16
	// lookupsWaiting bounds the replays of which it is not known yet whose request they are
	// about, and lookupsAtOnce those that are looked up at a time.
	lookupsWaiting, lookupsAtOnce = 1024, 16
)

const (
	// maxTurn is what no clock shows: turns past it would leave none for the streams to come.
	maxTurn = math.MaxInt64 / 2
	// turnStep is how far those of two streams are apart at least. One that is handed on moves
	// to the next turn: its former sender is behind it, and one that was asked later stays ahead.
	turnStep = 1000
)

// replay is a request's chunks on their way to one more reader.
type replay struct {
	request string
	tenant  string // whose request it is; "": it is not known yet
	reader  string // the tenant that reads it; "": its subject does not say
	asked   bool   // its reader waits as the one of an ask
	turn    int64
	id      uint64
	cancel  context.CancelFunc

	// to.From and until are for the sender of the stream: the first chunk that was not sent,
	// and the log's last record when the stream was asked for (0: it was not looked for).
	to    Destination
	until uint64
}

// mayRead reports whether the reader may have a tenant's answer, as far as its subject says.
func (st *replay) mayRead(tenant string) bool { return st.reader == "" || st.reader == tenant }

// openReplays are those under way: one for each request and reader.
type openReplays struct {
	id  string // the replica's
	now func() time.Time

	mu   sync.Mutex
	last uint64
	// turn is the last one that this replica gave or heard of. Turns order the streams
	// of all replicas: each is later than those before it wherever they began, however
	// far the replicas' clocks are apart (Lamport, Time, Clocks, and the Ordering of
	// Events in a Distributed System, 1978); of two at the same turn, that of the larger
	// replica's id is later. Near the servers' time in nanoseconds, a replica that has
	// heard of none agrees with the others about most.
	turn int64
	byID map[uint64]*replay
	// held are the streams of each tenant's requests.
	held *policy.Portions
	// readers of each request, by their subject.
	readers map[string]map[string]*replay
}

func newOpenReplays(id string, now func() time.Time) *openReplays {
	return &openReplays{id: id, now: now, byID: map[uint64]*replay{}, held: policy.NewPortions(maxStreams), readers: map[string]map[string]*replay{}}
}

// errServed says that a reader has a stream that is later than one that was handed on.
var errServed = errors.New("its reader is served since a later turn")

// next is the latest turn, for a stream that is asked for now.
func (t *openReplays) next() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.latest()
}

// latest gives the latest turn; t.mu is held.
func (t *openReplays) latest() int64 {
	t.turn = max(t.now().UnixNano(), t.turn+turnStep)
	return t.turn
}

// add begins a replay at its turn, or at the latest one. One to the same reader at an earlier turn ends: its
// reader asked again; or he has meanwhile, and this one is too late.
func (t *openReplays) add(ctx context.Context, st *replay) (context.Context, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.readers[st.request][st.to.Subject]
	if st.turn == 0 {
		st.turn = t.latest()
	} else if before != nil && before.turn >= st.turn {
		return nil, errServed
	}
	t.turn = max(t.turn, st.turn)
	if before != nil {
		t.remove(before)
	}
	switch {
	case len(t.readers[st.request]) >= maxStreamsPerRequest:
		return nil, edge.Errorf(edge.Overloaded, "request %q has %d readers already, and %d may", st.request, len(t.readers[st.request]), maxStreamsPerRequest)
	case !t.held.Take(st.tenant, 1):
		return nil, t.full(st.tenant)
	}
	return t.enter(ctx, st), nil
}

// full says that a tenant has its share.
func (t *openReplays) full(tenant string) error {
	whose := "tenant " + tenant
	if tenant == "" {
		whose = "requests that are not known yet"
	}
	return edge.Errorf(edge.Overloaded, "%d answers are streamed again already, of %d that may, and no more than half of them of one tenant, here %s", t.held.Had(), maxStreams, whose)
}

// belongs says whose request a stream is about, once that is known.
func (t *openReplays) belongs(st *replay, tenant string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[st.id] != st || st.tenant == tenant {
		return nil
	}
	if !t.held.Move(st.tenant, tenant, 1) {
		return t.full(tenant)
	}
	st.tenant = tenant
	return nil
}

// enter adds a stream; t.mu is held.
func (t *openReplays) enter(ctx context.Context, st *replay) context.Context {
	t.last++
	st.id = t.last
	st.to.probed, st.to.stream = true, st.id
	ctx, st.cancel = context.WithCancel(ctx)
	t.byID[st.id] = st
	if t.readers[st.request] == nil {
		t.readers[st.request] = map[string]*replay{}
	}
	t.readers[st.request][st.to.Subject] = st
	return ctx
}

// close ends a stream, and reports whether nothing had ended it before.
func (t *openReplays) close(st *replay) bool { return t.stop(st.id) }

// stop ends a stream whose reader is gone, unless it has ended.
func (t *openReplays) stop(id uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.byID[id]
	if st != nil {
		t.remove(st)
	}
	return st != nil
}

// takenOver ends a stream whose reader another replica serves since a later turn. If the
// stream here is the later one, it is returned: the other replica has not heard of it.
func (t *openReplays) takenOver(by, request, subject string, turn int64) (later *replay) {
	if turn > maxTurn {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn = max(t.turn, turn)
	st := t.readers[request][subject]
	if st == nil || cmp.Or(cmp.Compare(st.turn, turn), cmp.Compare(t.id, by)) >= 0 {
		return st
	}
	t.remove(st)
	return nil
}

func (t *openReplays) remove(st *replay) {
	st.cancel()
	t.held.Give(st.tenant, 1)
	delete(t.byID, st.id)
	delete(t.readers[st.request], st.to.Subject)
	if len(t.readers[st.request]) == 0 {
		delete(t.readers, st.request)
	}
}

// asked reports whether a caller of ask reads one of a request's streams.
func (t *openReplays) asked(request string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, st := range t.readers[request] {
		if st.asked {
			return true
		}
	}
	return false
}

// What replays to further readers may take of a tokenizer, beside those to the requests'
// own producers, which tokens are paid for: so many chunks a second of one tenant's
// requests, and of all of them together. To begin one takes as long as beginChunks do.
const (
	tenantChunks, allChunks = 4000.0, 16000.0
	beginChunks             = 8
	// burstFor is for how long a tenant may have gone without, to have all of it at once.
	burstFor = 2 * time.Second
	// longestWait is how long a reader waits to begin; one that would wait longer is refused.
	longestWait = 5 * time.Second
	// maxRated bounds the tenants of which it is known what they had.
	maxRated = 4096
)

// replayRate is when replays to further readers may send, by tenant.
type replayRate struct {
	mu   sync.Mutex
	all  time.Time            // when all that was sent is paid for
	each map[string]time.Time // by tenant
}

func newReplayRate() *replayRate { return &replayRate{each: map[string]time.Time{}} }

// chunk is how long a chunk waits.
func (p *replayRate) chunk(tenant string, now time.Time) time.Duration { return p.take(tenant, 1, now) }

// begin is how long a stream waits before it begins, or why it does not.
func (p *replayRate) begin(tenant string, now time.Time) (time.Duration, error) {
	p.mu.Lock()
	wait := p.wait(tenant, now)
	p.mu.Unlock()
	if wait > longestWait {
		refused := edge.Errorf(edge.Overloaded, "requests of this tenant are streamed again at %.0f chunks a second, as many as may be of one tenant (of all, %.0f)", tenantChunks, allChunks)
		refused.RetryAfter = admission.After(wait.Seconds())
		return 0, refused
	}
	return p.take(tenant, beginChunks, now), nil
}

// take takes so many chunks' time, and says how long to wait for it.
func (p *replayRate) take(tenant string, chunks int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.wait(tenant, now)
	p.all = later(p.all, now, chunks, allChunks)
	if _, known := p.each[tenant]; !known && len(p.each) >= maxRated {
		p.sweep(now)
	}
	p.each[tenant] = later(p.each[tenant], now, chunks, tenantChunks)
	return wait
}

// wait is how long it takes until what was sent is paid for, but for a burst; p.mu is held.
func (p *replayRate) wait(tenant string, now time.Time) time.Duration {
	return max(0, max(p.all.Sub(now), p.each[tenant].Sub(now), 0)-burstFor)
}

// later is when chunks more are paid for.
func later(paid, now time.Time, chunks int, rate float64) time.Time {
	if paid.Before(now) {
		paid = now
	}
	return paid.Add(time.Duration(float64(chunks) / rate * float64(time.Second)))
}

// await waits, if there is anything to wait for.
func await(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err() //nolint:wrapcheck // the caller knows what it waits for
	}
	return pause.For(ctx, wait)
}

// sweep forgets the tenants that have paid for all, or all of them; p.mu is held.
func (p *replayRate) sweep(now time.Time) {
	for tenant, paid := range p.each {
		if !paid.After(now) {
			delete(p.each, tenant)
		}
	}
	if len(p.each) >= maxRated {
		clear(p.each)
	}
}
