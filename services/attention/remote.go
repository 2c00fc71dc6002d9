package attention

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/process/notify"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// sender is bus.Hop's part that publishing tensors needs.
type sender interface {
	Send(ctx context.Context, subject string, m proto.Message) error
}

// remote is a layer's routed experts behind messages: it publishes hidden rows
// and waits for their blocks, and issues them again when they are late. One
// worker uses it, one layer at a time.
type remote struct {
	*exchange
	waitingFlag atomic.Bool // others have the rows
	progress    *forward.Progress

	microbatch uint32 // which of the replica's that are in flight at once
	pass              // of the step that it computes
	layer      int
	x          []float32 // (R, D), the caller's
	buf        []byte
	// The aggregator and the gate that were named last; any gate if it is empty.
	collector, router string

	mu      sync.Mutex
	out     []float32 // (R, D)
	parts   []rowsPart
	missing int
	issued  []time.Time    // by attempt; the first is that of Start
	layers  []ledger.Layer // of the step
	probe   bool           // all its rows are of canaries
	each    []ledger.Function
	fates   stepFates
	costs   stepCosts
	whole   chan struct{}
	hurried chan struct{}
	// declined: who got the newest attempt leaves it to others.
	declined chan struct{}
	decliner string // why the newest host, or gate, did so
	failure  *pb.Error
}

// rowsPart is what one Hidden message carries.
type rowsPart struct {
	first, rows int
	arrived     bool
}

// exchange is what the workers of a replica share: where blocks are awaited.
type exchange struct {
	subjects   schemas.Subjects
	identity   wire.Identity
	hop        sender
	wire       tensor.Wire
	d, topK    int
	moeLayers  []int // that have experts
	maxPayload func() int
	owner      string
	epoch      uint64
	// announce tells who listens of a step. It returns at once.
	announce func(context.Context, *pb.Step) error
	// copyRows sends rows to whoever sees them all, and returns at once; nil: nobody does.
	copyRows func(context.Context, *pb.Hidden)
	// shard names a live aggregator: each in its turn, and another one for
	// another attempt, if there is one; and says whether it takes sums of whole rows.
	shard func(turn uint64, attempt uint32) (id string, rowSums, ok bool)
	// gate names a live gate, or nobody while any gate may have the rows.
	gate func(turn uint64, attempt uint32) string
	// suspect says that an aggregator or a gate may be gone: others are preferred for a while.
	suspect func(ids ...string)
	stats   *stats

	next    atomic.Uint64
	latency *latency
	waking  waking

	mu      sync.Mutex
	waiters map[uint64]*remote // by step
}

// worker makes the replica's way out for one microbatch at a time.
func (x *exchange) worker(microbatch int) *remote {
	return &remote{exchange: x, fates: stepFates{layers: x.moeLayers, slots: x.topK}, microbatch: uint32(microbatch), whole: make(chan struct{}, 1), hurried: make(chan struct{}, 1), declined: make(chan struct{}, 1)}
}

// Start publishes the rows of x (R, D) for the layer's gate.
func (r *remote) Start(ctx context.Context, layer int, x []float32) (forward.Pending, error) {
	r.prepare(layer, x)
	r.latency.sent()
	for i := range r.parts {
		if err := r.send(ctx, r.parts[i], 0); err != nil && !passes(ctx, err) {
			r.forget()
			return nil, err
		}
	}
	return r, nil
}

func (r *remote) prepare(layer int, x []float32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.layer, r.x, r.each = layer, x, r.each[:0]
	rows := len(x) / r.d
	r.out = tensor.Resize(r.out, len(x))
	r.parts = split(r.parts[:0], rows, r.rowsPerMessage())
	r.missing, r.failure, r.decliner, r.issued = len(r.parts), nil, "", append(r.issued[:0], time.Now())
	for _, old := range []chan struct{}{r.whole, r.hurried, r.declined} {
		select {
		case <-old:
		default:
		}
	}
	r.exchange.mu.Lock()
	r.waiters[r.step] = r
	r.exchange.mu.Unlock()
}

// rowsPerMessage leaves room for what the gate adds.
func (r *remote) rowsPerMessage() int {
	return wire.RowsPerMessage(r.maxPayload(), r.d*r.wire.ElementBytes()+routingBytes)
}

// routingBytes is for the routing numbers of a row's slots.
const routingBytes = 256

func split(parts []rowsPart, rows, limit int) []rowsPart {
	n := (rows + limit - 1) / limit
	for i := range n {
		first := i * rows / n
		parts = append(parts, rowsPart{first: first, rows: (i+1)*rows/n - first})
	}
	return parts
}

func (r *remote) send(ctx context.Context, p rowsPart, attempt uint32) error {
	shard, rowSums, ok := r.shard(r.turn(), attempt)
	if !ok {
		return nil // nobody to collect yet: the next attempt asks again
	}
	gate := r.gate(r.turn(), attempt)
	r.collector, r.router = shard, gate
	x := r.x[p.first*r.d : (p.first+p.rows)*r.d]
	t := tensor.Encode(r.wire, x, r.d, r.buf)
	r.buf = t.Data
	h := &pb.Hidden{Tensor: t, Phases: cutPhases(r.phases, p.first, p.rows), Stamp: r.stamp, Probe: r.probe, Key: &pb.Key{
		Version: schemas.Version, Model: r.identity.Model, Owner: r.owner, Epoch: r.epoch,
		Step: r.step, Microbatch: r.microbatch, Layer: uint32(r.layer), Part: uint32(p.first), Rows: uint32(p.rows),
		Attempt: attempt, Shard: shard, RowSums: rowSums, RemainingMs: r.remaining(time.Now()),
	}}
	if err := r.hop.Send(ctx, r.subject(gate), h); err != nil {
		return fmt.Errorf("publishing hidden rows: %w", err)
	}
	if r.copyRows != nil && attempt == 0 {
		r.copyRows(ctx, h)
	}
	r.progress.Tick()
	return nil
}

// turn counts on with each layer and step, so that all replicas behind get work.
func (r *remote) turn() uint64 { return r.step + uint64(r.layer) }

func (r *remote) subject(gate string) string {
	if gate != "" {
		return r.subjects.Gate(gate)
	}
	return r.subjects.Hidden(r.layer)
}

// passes says whether an error of sending is as good as a loss on the way,
// which the next attempt makes up for: the server is away.
func passes(ctx context.Context, err error) bool { return ctx.Err() == nil && bus.Transient(err) }

// Wait fills out (R, D) when all parts have come back. Late parts are issued
// again with growing pauses: whoever had them may be gone.
func (r *remote) Wait(ctx context.Context, out []float32) error {
	defer r.forget()
	r.waitingFlag.Store(true)
	defer r.waitingFlag.Store(false)
	w := newWait(r.limits())
	defer w.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.whole:
			if r.failure != nil {
				return fmt.Errorf("layer %d could not be computed: %.*s", r.layer, maxReason, r.failure.Message)
			}
			copy(out, r.out)
			r.stats.hop(ctx, time.Since(w.began), &r.layers[len(r.layers)-1])
			return nil
		case <-r.hurried:
			w.hurry()
		case <-r.declined:
			w.decline()
		case <-w.timer.C:
			if r.patient(w) {
				continue
			}
			if err := r.again(ctx, w); err != nil {
				return err
			}
		}
	}
}

// maxReason bounds, in characters, what is quoted of another service's error.
const maxReason = 1000

// waiting says that others have the rows: a long layer of theirs is no hang, and
// the wait has its own end.
func (r *remote) waiting() bool { return r.waitingFlag.Load() }

// forget ends the wait for a layer's blocks: one that is being taken in is done by then,
// and later ones change nothing.
func (r *remote) forget() {
	r.exchange.mu.Lock()
	delete(r.waiters, r.step)
	r.exchange.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missing = 0
}

// receive takes a block in. Repeats and blocks nobody waits for change nothing.
func (x *exchange) receive(b *pb.Block) error {
	if err := x.identity.CheckBlockKey(b.Key); err != nil {
		return err
	}
	if b.Key.Epoch != x.epoch {
		return nil // meant for an earlier life of this replica
	}
	x.mu.Lock()
	r := x.waiters[b.Key.Step]
	x.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.take(b)
}

func (r *remote) take(b *pb.Block) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Key.Step != r.step || int(b.Key.Layer) != r.layer || r.missing == 0 {
		return nil
	}
	for i := range r.parts {
		p := &r.parts[i]
		if p.first != int(b.Key.Part) || p.arrived {
			continue
		}
		if err := r.fill(p, b); err != nil {
			return err
		}
		if r.missing == 0 {
			r.account(b)
			notify.Send(r.whole)
		}
	}
	return nil
}

// account writes down where the layer's time went, as its last block tells it:
// that one's group is what the layer has waited for.
func (r *remote) account(b *pb.Block) {
	l, cut := ledger.Join(time.Since(r.issued[0]), b, int(b.Key.Rows)*r.topK)
	l.Each = slices.Clone(r.each)
	r.layers = append(r.layers, l)
	r.stats.cut(cut)
	at := min(int(b.Key.Attempt), len(r.issued)-1)
	r.latency.observe(r.rows(), &l, r.issued[at].Sub(r.issued[0]))
}

func (r *remote) fill(p *rowsPart, b *pb.Block) error {
	if int(b.Key.Rows) != p.rows {
		return fmt.Errorf("%w: a block of %d rows from row %d, which were sent as %d", wire.ErrMalformed, b.Key.Rows, p.first, p.rows)
	}
	switch {
	case b.Error == nil:
	case b.Error.Code == wire.Elsewhere:
		if r.decliner = b.Error.Message; int(b.Key.Attempt) == len(r.issued)-1 {
			notify.Send(r.declined)
		}
		return nil
	default:
		r.failure, r.missing = b.Error, 0
		return nil
	}
	if err := cmp.Or(r.fates.check(p, b.Fates), checkCosts(p, b)); err != nil {
		return err
	}
	if err := tensor.Decode(r.out[p.first*r.d:(p.first+p.rows)*r.d], b.Tensor, r.d); err != nil {
		return err
	}
	if r.stats.steps != nil {
		r.each = ledger.Each(r.each, time.Since(r.issued[0]), b, p.rows*r.topK)
	}
	r.fates.take(r.layer, p, len(r.x)/r.d, b.Fates)
	r.costs.take(p, len(r.x)/r.d, b)
	p.arrived = true
	r.missing--
	return nil
}
