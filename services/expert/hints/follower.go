package hints

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Follower has a device load what hints name before rows come for it, and counts whether
// rows found it. A hint is worth its probability by the layers that its step has yet to pass
// until its own: when the step gets on, what is left is ranked anew, and so is what found no room when
// rows have given some back. What was loaded for a hint the device's order keeps, or gives up. A load
// that has not ended gives its room to rows that have none (Yield). It is safe for concurrent use.
type Follower struct {
	Settings

	mu    sync.Mutex
	flows map[flowID]*flow
	line  []*want // by when they came; those that are over, too
	live  int     // of line
	most  []*want // waiting's
	begun uint64  // flows so far
	over  bool    // nothing is followed any more
}

// Settings are what a host follows hints with.
type Settings struct {
	Device Device
	// Serves reports whether rows for an expert may come here.
	Serves func(layer, expert int) bool
	// Experts is how many each layer has, Layers how many layers there are.
	Layers, Experts int
	Metrics         telemetry.HostMetrics
	Tracer          *telemetry.Tracer // nil: none of this is traced
	// Fetch has hints fetch; else they are not followed, and accesses alone are counted.
	Fetch bool
	// Near is for how many layers ahead hints are followed at most; 0 is all.
	Near int
	// Outlook is told what is known, through Device.Reorder; nil: the device's order needs none.
	Outlook Outlook
}

// Device is what of a device.Device hints need.
type Device interface {
	Load(ctx context.Context, id forward.ExpertID, priority int64) *device.Ticket
	State(id forward.ExpertID) device.State
	Reorder(change func())
}

// Outlook is what an order of eviction knows of steps; a *residency.Outlook is one. What numbers
// sequences numbers microbatches here, whose rows hints have the largest probabilities of.
type Outlook interface {
	// Tell says how probable it makes the experts of a layer; below 0 is not known.
	Tell(sequence uint64, layer int, row []float32)
	// At says which layer it has reached, Step that it begins a step, Over and End that it is over.
	At(microbatch uint64, layer int)
	Step()
	Over(microbatch uint64)
	End(sequence uint64)
	// Await says that a unit is loaded ahead, Visit that rows use it.
	Await(u unit.Unit)
	Visit(u unit.Unit)
}

const (
	// maxWants bounds the experts that are hinted at a time, maxFlows the microbatches that
	// hints and rows are of.
	maxWants = 1024
	maxFlows = 256
	// staleAfter is how long a microbatch is remembered of which nothing comes any more.
	staleAfter = 5 * time.Second
)

// flowID is one of a replica's microbatches: one step of it is under way at a time.
type flowID struct {
	owner      string
	epoch      uint64
	microbatch uint32
}

// NewFollower returns one that has heard no hints.
func NewFollower(s Settings) *Follower {
	return &Follower{Settings: s, flows: map[flowID]*flow{}}
}

// Follow follows a hint that is one (control.Limits).
func (f *Follower) Follow(h *pb.Hint) {
	if !f.Fetch {
		return
	}
	all := f.served(h)
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.flow(flowID{h.Owner, h.Epoch, h.Microbatch}, h.Step, false)
	if fl == nil { // of a step that is over
		f.count("reached", len(all))
		return
	}
	f.hintCame(fl, int(h.Reached)-1)
	f.advance(fl, int(h.Reached)-1)
	f.pass(fl, h)
	f.tell(fl, h, all)
	for _, one := range fl.byWorth(all) {
		f.hint(fl, one)
	}
}

// named is an expert that a hint names.
type named struct {
	id    forward.ExpertID
	p     float32
	after int // as of a want
}

// byWorth sorts what a hint names: what is worth most comes first, as in waiting.
func (fl *flow) byWorth(all []named) []named {
	of := func(n named) int64 { return worth(n.p, fl.ahead(n.id.Layer, n.after)) }
	slices.SortStableFunc(all, func(a, b named) int { return cmp.Compare(of(b), of(a)) })
	return all
}

// served returns the experts of a hint that rows may come here for.
func (f *Follower) served(h *pb.Hint) (all []named) {
	for _, l := range h.Layers {
		after := 0
		if l.StepsAhead == 1 {
			after = f.Layers
		}
		if after > 0 && l.Wanted == 0 || chosen(h, l) {
			continue // the order alone goes by it, or pass
		}
		if l.StepsAhead > 1 || l.Kind != pb.FunctionKind_FUNCTION_KIND_ROUTED {
			f.count("elsewhere", len(l.Unit))
			continue
		}
		for i, u := range l.Unit {
			if l.Wanted > 0 && i >= int(l.Wanted) {
				break
			}
			if !f.Serves(int(l.Layer), int(u)) {
				f.count("elsewhere", 1)
				continue
			}
			all = append(all, named{forward.ExpertID{Layer: int(l.Layer), Expert: int(u)}, l.Probability[i], after})
		}
	}
	return all
}

// due reports whether an expert is of a layer that its step has yet to reach: of the next step's, one that this step
// has passed.
func (fl *flow) due(n named) bool {
	if n.after > 0 {
		return n.id.Layer < fl.at
	}
	return n.id.Layer > fl.at
}

// hint wants one expert for a step.
func (f *Follower) hint(fl *flow, n named) {
	if !fl.due(n) {
		f.count("reached", 1)
		return
	}
	if f.Near > 0 && n.after+n.id.Layer-fl.at > f.Near {
		f.count("roomless", 1)
		return
	}
	w := fl.wants[n.id]
	if w != nil && w.loaded && !f.warm(n.id) { // it has gone again, and is hinted anew
		f.end(w)
		w = nil
	}
	if w == nil {
		w = f.add(fl, n)
	}
	if n.p > w.p || w.ticket == nil {
		w.p = max(w.p, n.p)
		f.rank(w)
	}
}

// add returns a new want; the oldest makes place for it.
func (f *Follower) add(fl *flow, n named) *want {
	for f.live >= maxWants {
		f.end(f.oldest())
		f.count("dropped", 1)
	}
	if len(f.line) > 2*maxWants {
		f.sweep()
	}
	w := &want{flow: fl, id: n.id, after: n.after, came: time.Now(), caused: f.Device.State(n.id).Phase == device.Cold}
	fl.wants[n.id] = w
	f.line = append(f.line, w)
	f.live++
	if w.caused {
		f.count("loading", 1)
	} else {
		f.count("held", 1)
	}
	return w
}

// oldest returns the want that came first of those that are not over.
func (f *Follower) oldest() *want {
	for f.line[0].over {
		f.line = f.line[1:]
	}
	return f.line[0]
}

// Done says that rows have given their experts back: there may be room for what had none.
func (f *Follower) Done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fl := range f.flows {
		f.again(fl)
	}
}

// Yield gives back memory of loads that no rows are here for yet: so many bytes, if there are as
// many, those first that are worth least.
func (f *Follower) Yield(bytes int64) (gave bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.ranked() {
		if bytes <= 0 {
			break
		}
		if taken := f.Device.State(w.id).Bytes; taken > 0 && w.has() {
			bytes -= taken
			gave = true
			w.release()
		}
	}
	return gave
}

// Run forgets what nothing comes of any more, until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	tick := time.NewTicker(staleAfter / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.forget(now)
		}
	}
}

// Close gives all memory back; nothing is followed from then on.
func (f *Follower) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	for _, fl := range f.flows {
		f.endAll(fl)
	}
	clear(f.flows)
}

// forget ends the flows of which nothing has come for long.
func (f *Follower) forget(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, fl := range f.flows {
		if now.Sub(fl.seen) > staleAfter {
			f.leave(id, fl)
		}
	}
}

func (f *Follower) count(outcome string, n int) {
	f.Metrics.HintedExperts.WithLabelValues(outcome).Add(float64(n))
}

// What the device's order is told of steps, where it asks for it.

// learn changes what the order knows.
func (f *Follower) learn(change func(o Outlook)) {
	if f.Outlook != nil {
		f.Device.Reorder(func() { change(f.Outlook) })
	}
}

func (f *Follower) begin(fl *flow) {
	f.learn(func(o Outlook) {
		o.Step()
		o.At(fl.number, -1)
	})
}

// tell says how probable a hint makes experts, those too that are not worth loading, and which
// are loaded ahead.
func (f *Follower) tell(fl *flow, h *pb.Hint, ahead []named) {
	f.learn(func(o Outlook) {
		for _, l := range h.Layers {
			next := l.StepsAhead == 1 && int(l.Layer) <= fl.at // what a layer that is over is to ask next
			if chosen(h, l) || l.StepsAhead > 0 && !next || l.Kind != pb.FunctionKind_FUNCTION_KIND_ROUTED {
				continue
			}
			row := make([]float32, f.Experts)
			for e := range row {
				row[e] = -1
			}
			for i, u := range l.Unit {
				row[u] = l.Probability[i]
			}
			o.Tell(fl.number, int(l.Layer), row)
		}
		for _, n := range ahead {
			if fl.due(n) {
				o.Await(unit.Expert(n.id.Layer, n.id.Expert))
			}
		}
	})
}

// visit is for rows that have come.
func (f *Follower) visit(ids []forward.ExpertID) {
	if len(ids) == 0 {
		return
	}
	f.learn(func(o Outlook) {
		for _, id := range ids {
			o.Visit(unit.Expert(id.Layer, id.Expert))
		}
	})
}
