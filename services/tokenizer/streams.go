package tokenizer

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/request/edge"
)

// Bounds of the streams that a replica sends beside those of its shards: each
// is a consumer of the token log until the request ends or its reader goes.
const (
	maxStreams           = 1024
	maxStreamsPerRequest = 16
)

// maxTurn is what no clock shows: turns past it would leave none for the streams to come.
const maxTurn = math.MaxInt64 / 2

// stream is a request's chunks on their way to one more reader.
type stream struct {
	id      uint64
	request string
	subject string
	asked   bool // its reader waits as the one of an ask
	turn    int64
	cancel  context.CancelFunc
}

// streams are those under way: one for each request and reader.
type streams struct {
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
	byID map[uint64]*stream
	// readers of each request, by their subject.
	readers map[string]map[string]*stream
}

func newStreams(id string, now func() time.Time) *streams {
	return &streams{id: id, now: now, byID: map[uint64]*stream{}, readers: map[string]map[string]*stream{}}
}

// open begins a stream. One to the same reader ends: its reader asked again.
func (t *streams) open(ctx context.Context, request string, to destination, asked bool) (context.Context, *stream, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.readers[request][to.subject]; before != nil {
		t.remove(before)
	}
	switch {
	case len(t.readers[request]) >= maxStreamsPerRequest:
		return nil, nil, edge.Errorf(edge.Overloaded, "request %q has %d readers already, and %d may", request, len(t.readers[request]), maxStreamsPerRequest)
	case len(t.byID) >= maxStreams:
		return nil, nil, edge.Errorf(edge.Overloaded, "%d answers are streamed again already, and %d may", len(t.byID), maxStreams)
	}
	t.last++
	t.turn = max(t.now().UnixNano(), t.turn+1)
	st := &stream{id: t.last, request: request, subject: to.subject, asked: asked, turn: t.turn}
	ctx, st.cancel = context.WithCancel(ctx)
	t.byID[st.id] = st
	if t.readers[request] == nil {
		t.readers[request] = map[string]*stream{}
	}
	t.readers[request][to.subject] = st
	return ctx, st, nil
}

// close ends a stream; it may have been ended before.
func (t *streams) close(st *stream) { t.stop(st.id) }

// stop ends a stream whose reader is gone.
func (t *streams) stop(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.byID[id]; st != nil {
		t.remove(st)
	}
}

// takenOver ends a stream whose reader another replica serves since a later turn.
func (t *streams) takenOver(by, request, subject string, turn int64) {
	if turn > maxTurn {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn = max(t.turn, turn)
	if st := t.readers[request][subject]; st != nil && cmp.Or(cmp.Compare(st.turn, turn), cmp.Compare(t.id, by)) < 0 {
		t.remove(st)
	}
}

func (t *streams) remove(st *stream) {
	st.cancel()
	delete(t.byID, st.id)
	delete(t.readers[st.request], st.subject)
	if len(t.readers[st.request]) == 0 {
		delete(t.readers, st.request)
	}
}

// asked says whether a caller of ask reads one of a request's streams.
func (t *streams) asked(request string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, st := range t.readers[request] {
		if st.asked {
			return true
		}
	}
	return false
}
