package layer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Remote is a layer's routed experts behind messages: it publishes hidden rows
// and waits for their blocks, and issues them again when they are late. One
// worker uses it, one layer at a time.
type Remote struct {
	*Exchange
	progress *forward.Progress // counts messages that were sent
	waiting  atomic.Bool       // others have the rows

	microbatch uint32 // which of the replica's that are in flight at once
	pass              // of the step that it computes
	layer      int
	at         int       // which of the layers with experts that is
	stamp      *pb.Stamp // of the layer
	x          []float32 // (R, D), the caller's
	buf        []byte
	// The aggregator and the gate that were named last; any gate if it is empty.
	collector, router string

	back    *collection
	hurried chan struct{}
}

// Remote makes the way out for one microbatch at a time. progress counts what it sends.
func (x *Exchange) Remote(microbatch int, progress *forward.Progress) *Remote {
	return &Remote{
		Exchange: x, progress: progress, microbatch: uint32(microbatch),
		back: newCollection(x.shape, x.counts, x.latency, x.each), hurried: make(chan struct{}, 1),
	}
}

// Begin gives the rows of a microbatch a step, and announces it. That is one
// publish on the connection that the rows take next and waits for no answer;
// when it fails the step goes on.
func (r *Remote) Begin(ctx context.Context, s Step) {
	r.pass = pass{step: r.next.Add(1), phases: phasesOf(s.Runs), order: s.Order, before: replaysOf(s.Replay), end: s.End, probe: s.Probe}
	r.back.begin(r.step, countRows(s.Runs))
	err := r.announce(ctx, &pb.Step{
		Version: schemas.Version, Model: r.identity.Model, Owner: r.owner, Epoch: r.epoch,
		Step: r.step, Microbatch: r.microbatch, Runs: s.Runs,
	})
	if err != nil {
		r.counts.metrics.UnannouncedSteps.Inc()
	}
}

// Number is the step's.
func (r *Remote) Number() uint64 { return r.step }

// Start publishes the rows of x (R, D) for the layer's gate.
func (r *Remote) Start(ctx context.Context, layer int, x []float32) (forward.Pending, error) {
	parts := r.prepare(layer, x)
	r.latency.sent()
	for i := range parts {
		if err := r.send(ctx, parts[i], 0); err != nil && !passes(ctx, err) {
			r.forget()
			return nil, err
		}
	}
	return r, nil
}

func (r *Remote) prepare(layer int, x []float32) (parts []rowsPart) {
	r.layer, r.at, r.x = layer, max(0, slices.Index(r.shape.layers, layer)), x
	parts = r.back.prepare(layer, len(x), r.rowsPerMessage(), r.before.cuts)
	r.stamp = r.order.stamp(layer, len(parts))
	r.back.ask(r.stamp)
	select {
	case <-r.hurried:
	default:
	}
	r.enlist(r.step, r)
	return parts
}

// rowsPerMessage leaves room for what the gate adds.
func (r *Remote) rowsPerMessage() int {
	return wire.RowsPerMessage(int(r.conn.MaxPayload()), r.shape.hidden*r.shape.wire.ElementBytes()+routingBytes)
}

// routingBytes is for the routing numbers of a row's slots.
const routingBytes = 256

// send names who is to have a part's rows, and publishes them, with a copy for predictors the first time.
func (r *Remote) send(ctx context.Context, p rowsPart, attempt uint32) error {
	aggregator, rowSums, ok := r.to.aggregatorFor(r.turn(), attempt)
	if !ok {
		return errNobody
	}
	gate := r.to.gate(r.turn(), attempt)
	r.collector, r.router = aggregator, gate
	h := r.hidden(p)
	h.Key = &pb.Key{
		Version: schemas.Version, Model: r.identity.Model, Owner: r.owner, Epoch: r.epoch,
		Step: r.step, Microbatch: r.microbatch, Layer: uint32(r.layer), Part: uint32(p.first), Rows: uint32(p.rows),
		Attempt: attempt, Aggregator: aggregator, RowSums: rowSums, RemainingMs: r.remaining(time.Now()),
	}
	if err := r.hop.Send(ctx, r.subject(gate), h); err != nil {
		return fmt.Errorf("publishing hidden rows: %w", err)
	}
	if attempt == 0 {
		if r.allRows {
			_ = r.conn.Send(ctx, r.subjects.Rows(int(h.Key.Layer)), h, nil)
		}
	}
	r.progress.Tick()
	return nil
}

// hidden is the message of a part's rows, without its key.
func (r *Remote) hidden(p rowsPart) *pb.Hidden {
	d := r.shape.hidden
	t := tensor.Encode(r.shape.wire, r.x[p.first*d:(p.first+p.rows)*d], d, r.buf)
	r.buf = t.Data
	replay, stamp := r.before.of(p, r.at, r.shape.slots), r.stamp
	if replay.GetWay() != 0 && !sameBundle(replay, stamp) {
		stamp = nil // a message has united experts of one bundle
	}
	h := &pb.Hidden{Tensor: t, Phases: cutPhases(r.phases, p.first, p.rows), Stamp: stamp, Replay: replay, Probe: r.probe}
	if r.stamp != nil {
		h.WholeRows = uint32(r.rows())
	}
	return h
}

// turn counts on with each layer and step, so that all replicas behind get work.
func (r *Remote) turn() uint64 { return r.step + uint64(r.layer) }

func (r *Remote) subject(gate string) string {
	if gate != "" {
		return r.subjects.Gate(gate)
	}
	return r.subjects.Hidden(r.layer)
}

// errNobody says that rows were not sent, since there is nobody yet to collect them.
var errNobody = errors.New("no aggregator is known")

// passes reports whether an error of sending is as good as a loss on the way,
// which the next attempt makes up for: the server is away, or an aggregator.
func passes(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (bus.Transient(err) || errors.Is(err, errNobody))
}

// Wait fills out (R, D) when all parts have come back. Late parts are issued
// again with growing pauses: whoever had them may be gone.
func (r *Remote) Wait(ctx context.Context, out []float32) error {
	defer r.forget()
	r.waiting.Store(true)
	defer r.waiting.Store(false)
	w := newWait(r.limits())
	defer w.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.back.whole:
			took, err := r.back.result(out)
			if err == nil {
				r.counts.hop(ctx, time.Since(w.began), took)
			}
			return err
		case <-r.hurried:
			w.hurry()
		case <-r.back.declined:
			if w.declines++; w.declines <= maxDeclines {
				w.hurried, w.declined = true, true
				w.until(time.Now())
			}
		case <-w.timer.C:
			if r.stands(w) || r.patient(w) {
				continue
			}
			if err := r.retry(ctx, w); err != nil {
				return err
			}
		}
	}
}

// Waiting says that others have the rows: a long layer of theirs is no hang, and
// the wait has its own end.
func (r *Remote) Waiting() bool { return r.waiting.Load() }

// take takes in a block that is awaited.
func (r *Remote) take(b *pb.Block) error { return r.back.take(b) }

// hurry has the next re-issue come as soon as the layer takes longer than usual.
func (r *Remote) hurry() { pause.Wake(r.hurried) }

// forget ends the wait for a layer's blocks: one that is being taken in is done by then,
// and later ones change nothing.
func (r *Remote) forget() {
	r.delist(r.step)
	r.back.end()
}

// errNoServer is why nobody can have rows while NATS is away or hangs.
var errNoServer = errors.New("the NATS server is away or does not answer")

// stands reports whether rows that are due wait because nobody could take them: patience stands
// still meanwhile, and begins anew with rows that are sent at once when somebody is back.
func (r *Remote) stands(w *wait) bool {
	why := r.to.absent()
	if !r.conn.Hears() {
		why = errNoServer
	}
	switch {
	case why != nil:
		w.stand(why.Error())
	case w.standing:
		w.resume()
	}
	return why != nil
}

// patient reports whether rows that are due may wait on.
func (r *Remote) patient(w *wait) bool {
	return w.excuse() || r.waking.in(r.layer, time.Now()) && w.extend() || w.postpone(r.latency.spend)
}

// limits are those of the layer that is away.
func (r *Remote) limits() limits { return r.latency.limits(r.layer, r.rows()) }

// rows is how many are away.
func (r *Remote) rows() int { return len(r.x) / r.shape.hidden }

// retry issues what is late once more, and sets the time of the next one.
func (r *Remote) retry(ctx context.Context, w *wait) error {
	trouble := r.to.troubled()
	blames := w.blames() && trouble == ""
	if w.missed(trouble); blames {
		w.late++
	}
	if w.late > maxAttempts {
		return fmt.Errorf("no answer from layer %d's experts after %d attempts in %v%s%s",
			r.layer, maxAttempts, time.Since(w.began).Round(time.Second), r.back.declining(), w.missing())
	}
	if !w.declined {
		r.to.suspect(r.collector, r.router)
	}
	err := r.reissue(ctx, w.attempt+1)
	switch {
	case err == nil:
		w.attempt++
	case !passes(ctx, err):
		return err
	case blames:
		w.late-- // nobody can be blamed for it
	}
	w.next(r.limits())
	return nil
}

func (r *Remote) reissue(ctx context.Context, attempt uint32) error {
	late := r.back.unreturned(attempt)
	for _, p := range late {
		if err := r.send(ctx, p, attempt); err != nil {
			return err
		}
	}
	r.counts.reissued(len(late))
	return nil
}

// Layers is where the time of each layer of the step went, in their order.
func (r *Remote) Layers() []ledger.Layer { return r.back.layers }

// Curve is how many experts would have had rows of the step at each threshold that its stamp asked
// for, over all layers; nil: some gate has not told.
func (r *Remote) Curve() []uint32 {
	r.back.mu.Lock()
	defer r.back.mu.Unlock()
	return r.back.curve.whole()
}

// Outcome says what became of so many rows of the step from the first on, and what they cost.
// Fates are nil where all slots had their own experts.
func (r *Remote) Outcome(first, rows int) (*pb.Fates, Cost) {
	r.back.mu.Lock()
	defer r.back.mu.Unlock()
	return r.back.fates.of(first, rows), r.back.costs.of(first, rows)
}

// Order is what gates obey in a step.
type Order struct {
	// Stamp is set on the rows of each layer but those that are exempt, whose rows all have their
	// own experts.
	Stamp  *pb.Stamp
	Exempt []uint32
}

// stamp is that of a layer's rows, in so many messages; nil: none. Where one gate sees all of
// them, it makes one decision; else each message is decided alone.
func (o *Order) stamp(layer, messages int) *pb.Stamp {
	if o == nil || slices.Contains(o.Exempt, uint32(layer)) {
		return nil
	}
	if whole := messages == 1; o.Stamp.Whole != whole {
		s := proto.CloneOf(o.Stamp)
		s.Whole = whole
		return s
	}
	return o.Stamp
}

// Replay is what became of rows of a step when they were computed before: of so many from the first on.
// The fates are of more rows, those to skip before them.
type Replay struct {
	First, Rows, Skip int
	Fates             *pb.Fates
}

// replays are those of a step, decoded. A message carries those of united experts of one bundle.
type replays struct {
	all  []replayed
	cuts []int // first rows of replays that cannot be in one message with those before
}

type replayed struct {
	Replay
	codes []wire.FateCode // (rows, layers, slots)
}

// replaysOf decodes replays that have been checked.
func replaysOf(all []Replay) (a replays) {
	last := (*pb.Fates)(nil)
	for _, r := range all {
		codes, err := wire.DecodeFates(r.Fates)
		if err != nil || len(codes) == 0 {
			continue
		}
		a.all = append(a.all, replayed{r, codes})
		if r.Fates.Way == 0 && r.Fates.Bundle == 0 {
			continue
		}
		if last != nil && !sameBundle(last, r.Fates) {
			a.cuts = append(a.cuts, r.First)
		}
		last = r.Fates
	}
	return a
}

type bundled interface {
	GetWay() uint32
	GetBundle() uint64
}

func sameBundle(a, b bundled) bool {
	return a.GetWay() == b.GetWay() && a.GetBundle() == b.GetBundle()
}

// of is what is to become of a part's rows in a layer, which is the at-th that has experts; nil: each
// slot has its own expert.
func (a *replays) of(p rowsPart, at, slots int) *pb.Fates {
	var codes []wire.FateCode
	way, bundle := uint32(0), uint64(0)
	for _, r := range a.all {
		from, to := max(p.first, r.First), min(p.first+p.rows, r.First+r.Rows)
		for row := from; row < to; row++ {
			first := ((row-r.First+r.Skip)*int(r.Fates.Layers) + at) * slots
			of := r.codes[first : first+slots]
			if !slices.ContainsFunc(of, func(c wire.FateCode) bool { return c != wire.FateOwn }) {
				continue
			}
			if codes == nil {
				codes = make([]wire.FateCode, p.rows*slots)
			}
			copy(codes[(row-p.first)*slots:], of)
			way, bundle = max(way, r.Fates.Way), max(bundle, r.Fates.Bundle)
		}
	}
	if codes == nil {
		return nil
	}
	f := wire.EncodeFates(wire.FatesShape{Rows: p.rows, Layers: 1, Slots: slots}, codes)
	f.Way, f.Bundle = way, bundle
	return f
}

// shape is what rows and their slots are.
type shape struct {
	hidden  int // elements of a row
	slots   int // of a row
	experts int // of a layer
	layers  []int
	wire    tensor.Wire
}

// rowsPart is what one Hidden message carries.
type rowsPart struct {
	first, rows int
	arrived     bool
}

// split cuts rows into as few parts as there must be, of at most limit rows, and at cuts.
func split(parts []rowsPart, rows, limit int, cuts []int) []rowsPart {
	from := 0
	for _, cut := range cuts {
		if cut > from && cut < rows {
			parts = evenly(parts, from, cut-from, limit)
			from = cut
		}
	}
	return evenly(parts, from, rows-from, limit)
}

func evenly(parts []rowsPart, from, rows, limit int) []rowsPart {
	n := (rows + limit - 1) / limit
	for i := range n {
		first := i * rows / n
		parts = append(parts, rowsPart{first: from + first, rows: (i+1)*rows/n - first})
	}
	return parts
}
