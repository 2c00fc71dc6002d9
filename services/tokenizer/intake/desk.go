package intake

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// decodingBytes bounds what prompts that are read and tokenized at a time may take in
	// memory beside their bodies. What would take more alone is alone.
	decodingBytes = 64 << 20
	// smallDecoding is what waits for no memory: so many at once are few beside the others.
	smallDecoding = 128 << 10
	// What bodies, texts, and values in JSON for the chat template take at most, about,
	// for each of their bytes.
	perBodyByte, perTextByte, perValueByte = 8, 8, 64
	// What reading is taken to last before it is known.
	leastSeconds, secondsPerByte = 1e-4, 1e-8
)

// desk is where prompts are read, tokenized and their grammars compiled. As many are there at a time as there
// is memory for, and twice as many as there are processors. Tenants share both by weight: the next one is of
// the tenant that had least time of processors, and none has more than half while it has anything, so that
// what others ask for begins at once.
type desk struct {
	turns, room *line
	weight      func(tenant string) uint32
}

func newDesk(weight func(tenant string) uint32) desk {
	return desk{newLine(2 * int64(runtime.GOMAXPROCS(0))), newLine(decodingBytes), weight}
}

// enter waits for a tenant's turn with what takes so many bytes; leave ends it, and says how long it was.
func (d desk) enter(ctx context.Context, flow schemas.Flow, bytes int64) (leave func() time.Duration, err error) {
	weight, work := float64(d.weight(flow.Tenant)), leastSeconds+secondsPerByte*float64(bytes)
	giveRoom := func(float64) {}
	if bytes > smallDecoding {
		amount := min(bytes, decodingBytes)
		giveRoom, err = d.room.take(ctx, &visit{flow: flow, weight: weight, amount: amount, work: float64(amount)})
		if err != nil {
			return nil, fmt.Errorf("waiting for room to read a prompt: %w", err)
		}
	}
	giveTurn, err := d.turns.take(ctx, &visit{flow: flow, weight: weight, amount: 1, work: work})
	if err != nil {
		giveRoom(0)
		return nil, fmt.Errorf("waiting for a turn to read a prompt: %w", err)
	}
	begun := time.Now()
	return func() time.Duration {
		took := time.Since(begun)
		giveTurn(took.Seconds())
		giveRoom(float64(bytes))
		return took
	}, nil
}

// line hands out so much of something, in the order of start-time fair queueing (policy/admission).
type line struct {
	most  int64
	begun time.Time

	mu    sync.Mutex
	queue admission.Queue[*visit]
	next  *visit // is served as soon as there is enough for it; nil: queue says who
	free  int64
	own   map[string]*ownLine
}

// ownLine is a tenant's.
type ownLine struct {
	has     int64    // what it was given, or is in the queue for
	waiting []*visit // until it has less
	longest float64  // what its visits took lately at most: what the next ones are taken to
}

// visit is somebody who wants some of it.
type visit struct {
	flow   schemas.Flow
	weight float64
	amount int64
	work   float64
	ready  chan struct{} // closed when it was given
	left   bool          // it does not wait any more
}

func newLine(most int64) *line {
	return &line{most: most, begun: time.Now(), free: most, own: map[string]*ownLine{}}
}

// take waits until a visit is given what it wants. give gives it back, and says what it took.
func (l *line) take(ctx context.Context, v *visit) (give func(work float64), err error) {
	v.ready = make(chan struct{})
	l.mu.Lock()
	own := l.own[v.flow.Tenant]
	if own == nil {
		own = &ownLine{}
		l.own[v.flow.Tenant] = own
	}
	own.waiting = append(own.waiting, v)
	l.advance(own)
	l.serve()
	l.mu.Unlock()
	select {
	case <-v.ready:
		return func(work float64) { l.give(v, work) }, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	v.left = true
	l.mu.Unlock()
	select {
	case <-v.ready: // it was given meanwhile
		l.give(v, 0)
	default:
	}
	return nil, ctx.Err()
}

// advance has those of a tenant join the queue that may: with what it has they are half of all.
func (l *line) advance(own *ownLine) {
	for len(own.waiting) > 0 {
		v := own.waiting[0]
		if !v.left {
			if own.has > 0 && own.has+v.amount > l.most/2 {
				return
			}
			own.has += v.amount
			v.work = max(v.work, own.longest) // the queue forgets who has had less than it knows of
			l.queue.Join(admission.Request[*visit]{Who: v, Flow: v.flow, Weight: v.weight, Work: v.work, Arrived: time.Since(l.begun).Seconds()})
		}
		own.waiting = own.waiting[1:]
	}
}

// serve gives as much as there is.
func (l *line) serve() {
	for l.free > 0 { // else it is found later who has had least
		if l.next == nil {
			r, ok := l.queue.Next()
			if !ok {
				return
			}
			l.next = r.Who
		}
		switch v := l.next; {
		case v.left:
			l.next = nil
			l.release(v, 0)
		case v.amount > l.free:
			return
		default:
			l.free -= v.amount
			l.next = nil
			close(v.ready)
		}
	}
}

func (l *line) give(v *visit, work float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free += v.amount
	l.release(v, work)
	l.serve()
}

// release counts what a tenant has no more, and what that took.
func (l *line) release(v *visit, work float64) {
	l.queue.Refund(v.flow.Tenant, v.weight, v.work-work)
	own := l.own[v.flow.Tenant]
	own.has -= v.amount
	own.longest = max(work, fades*own.longest)
	l.advance(own)
	if own.has == 0 && len(own.waiting) == 0 {
		delete(l.own, v.flow.Tenant)
	}
}

// fades is what is left of a long visit with each one that is shorter.
const fades = 0.9

// decodedBytes is what a body of so many bytes takes to be read.
func decodedBytes(body int) int64 { return perBodyByte * int64(body) }

// tokenizedBytes is what a prompt takes to become tokens.
func tokenizedBytes(p *pb.Prompt) int64 {
	text, values := len(p.Text), len(p.Tools)+len(p.ChatTemplateKwargs)
	for _, m := range p.Messages {
		text += len(m.GetContent()) + len(m.ReasoningContent)
		values += len(m.ToolCalls)
	}
	return perTextByte*int64(text) + perValueByte*int64(values)
}
