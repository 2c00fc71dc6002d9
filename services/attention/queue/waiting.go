package queue

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

const (
	// maxWaiting bounds the sequences that wait in a replica, and maxWaitingBytes
	// what they take; what is beyond stays in the stream, in the order of arrival. As
	// many may wait in all while --max-queued is what it is by itself.
	maxWaiting      = 2048
	maxWaitingBytes = 64 << 20
)

// waiting are the sequences that wait for their turn in this replica: pulled and
// renewed, and not claimed yet. The stream gives them in the order of arrival, so
// that a tenant who sends most would have most; here they go in fair order.
type waiting struct {
	changed chan struct{} // holds a signal after every change
	emptied chan struct{} // holds one when none waits any more

	mu     sync.Mutex
	queue  admission.Queue[*arrival]
	byID   map[string]*arrival
	coming int // pulled, and not in the queue yet
	bytes  int
}

// arrival is a sequence that was pulled.
type arrival struct {
	msg       *pb.Sequence
	hold      *renewal.Hold
	bytes     int
	delivered int
	place     uint64    // in the stream
	stored    time.Time // there
	begun     bool      // its log was claimed before
	// away reports whether this replica was disconnected since it has it.
	away func() bool
}

func newWaiting() *waiting {
	return &waiting{changed: make(chan struct{}, 1), emptied: make(chan struct{}, 1), byID: map[string]*arrival{}}
}

// signal tells of a change; w.mu is held.
func (w *waiting) signal() {
	pause.Wake(w.changed)
	if w.queue.Len()+w.coming == 0 {
		pause.Wake(w.emptied)
	}
}

// expect counts what was pulled, until join or pass.
func (w *waiting) expect(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming += n
}

// pass says that one that was expected does not wait.
func (w *waiting) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming--
	w.signal()
}

// join lets one that was expected wait. It takes the place of the same request,
// which came again: its renewal was late.
func (w *waiting) join(a *arrival) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming--
	if before := w.byID[a.msg.RequestId]; before != nil {
		before.hold.Drop()
		w.remove(before)
	}
	w.byID[a.msg.RequestId] = a
	w.bytes += a.bytes
	w.queue.Join(a.request())
	w.signal()
}

func (a *arrival) request() admission.Request[*arrival] {
	return admission.Request[*arrival]{
		Who: a, Flow: a.flow(), Weight: a.weight(), Work: edge.Work(a.msg),
		Arrived: a.arrived(), Begun: a.begun,
	}
}

func (a *arrival) flow() schemas.Flow { return schemas.FlowOf(a.msg.Accept) }

// arrived is when the prompt came; as long as nobody says, when the sequence did.
func (a *arrival) arrived() float64 {
	ns := a.msg.Accept.GetArrived()
	if ns <= 0 {
		ns = a.stored.UnixNano()
	}
	return float64(ns) / float64(time.Second)
}

func (a *arrival) weight() float64 { return float64(a.msg.Accept.GetWeight()) }

// next waits until there is one, and takes out whose turn it is; nil when ctx ended.
func (w *waiting) next(ctx context.Context) *arrival {
	for ctx.Err() == nil {
		if a := w.take(); a != nil {
			return a
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
	}
	return nil
}

func (w *waiting) take() *arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.queue.Next()
	if !ok {
		return nil
	}
	w.forget(r.Who)
	return r.Who
}

// leave takes a request out; nil: it does not wait here.
func (w *waiting) leave(request string) *arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.byID[request]
	if a != nil {
		w.remove(a)
	}
	return a
}

// surplus takes out up to n that would wait longest, as far as others can hold them.
func (w *waiting) surplus(n int, fits func(*arrival) bool) (out []*arrival) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		r, ok := w.queue.Last()
		if !ok || !fits(r.Who) {
			break
		}
		w.remove(r.Who)
		out = append(out, r.Who)
	}
	return out
}

func (w *waiting) remove(a *arrival) {
	w.queue.Leave(a)
	w.forget(a)
}

func (w *waiting) forget(a *arrival) {
	delete(w.byID, a.msg.RequestId)
	w.bytes -= a.bytes
	w.signal()
}

// refund gives a tenant back the work that one of its sequences did not need.
func (w *waiting) refund(a *arrival, used float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.Refund(a.flow().Tenant, a.weight(), edge.Work(a.msg)-used)
}

func (w *waiting) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.Len() + w.coming
}

// room is how many more may wait.
func (w *waiting) room() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes >= maxWaitingBytes {
		return 0
	}
	return max(0, maxWaiting-w.queue.Len()-w.coming)
}

// backlog is how many requests wait for their turn.
func (w *waiting) backlog() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.byID {
		if !a.flow().IsCanary() {
			n++
		}
	}
	return n
}
