package residency

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	policy "github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Words of the schemas.
const (
	nothing = pb.Want_WANT_UNSPECIFIED
	warm    = pb.Want_WANT_WARM
	kept    = pb.Want_WANT_KEPT
	cold    = pb.Want_WANT_COLD

	isCold     = pb.FunctionPhase_FUNCTION_PHASE_COLD
	isWarming  = pb.FunctionPhase_FUNCTION_PHASE_WARMING
	isWarm     = pb.FunctionPhase_FUNCTION_PHASE_WARM
	isDraining = pb.FunctionPhase_FUNCTION_PHASE_DRAINING
	isRefused  = pb.FunctionPhase_FUNCTION_PHASE_REFUSED
)

// Function is a replica of a function on this host.
//
//	wanted ─▶ warming ─loaded, joined─▶ warm ─▶ retired ─no gate uses it─▶ draining ─▶ resting ─▶ gone
//	   │         │  ▲                    │ ▲       └───────────wanted again──▶ warm ◀─────┘
//	   │         ▼  │ room again         │ │
//	   │       refused                   │ └first rows, by way of warming
//	   └─wanted cold─▶ cold, joined ◀────┘
//	                   when it is wanted cold and rows have not come for long
//
// One that is borrowed (borrow.go) is wanted cold, though the plan wants it elsewhere,
// and retires when nobody needs it. What rests is warm, takes no rows, and waits in memory
// to be wanted again (room.go). One that is wanted no more before it is warm goes at once,
// and its loads are cancelled. Whatever takes time is done by the function's own keeper
// (keeper.go), so that no function waits for another.
type Function struct {
	layer  int
	spec   *pb.Function
	number uint64 // the id as times name it
	// ids are its units as the device names them, in the order of the spec's experts.
	ids []forward.ExpertID
	// cannot is why the host can never serve it; nil: it can.
	cannot error
	tally  tally
	busy   atomic.Int32  // dispatches under way; they begin under the table's lock
	wake   chan struct{} // a note for the keeper

	// Of the keeper alone, and before it first runs, of whoever wants the function.
	experts []*device.Ticket // from when it is to be loaded until it is dropped
	// roomless is since when the device had no room, in steps of the keeper.
	roomless int
	// grouped says that it may have a group, which the host has made or joined.
	grouped bool

	// Guarded by the table's lock.
	want      pb.Want // nothing: retired
	retiredBy uint64  // the first plan of the layer that does not want it here; 0 while it is wanted
	alone     bool    // no other host is to have it
	offloaded bool    // its experts come and go with the rows for them (loans.go)
	pinned    bool    // it is offloaded, and its experts stay (pins.go)
	borrowed  bool    // the plan has it elsewhere, whose hosts lose rows
	drop      bool    // no gate uses it, or its room is needed
	evict     eviction
	roused    bool      // rows have come for one that is wanted cold
	demanded  bool      // rows wait for its loads
	waits     int       // dispatches that wait for it
	unused    time.Time // since when nobody needs its experts, as long as nobody does
	start     *coldStart
	priority  int64 // of the loads: a newer want's are before an older one's
	state     *pb.FunctionState
	receiving Group // nil: it is not in it
	running   bool  // the keeper
	interrupt context.CancelFunc
	warmed    chan struct{} // closed when it is warm, or is dropped
}

// newFunction returns one that nobody wants yet.
func newFunction(layer int, spec *pb.Function, with United, m *telemetry.Metrics) *Function {
	number, _ := strconv.ParseUint(spec.Id, 16, 64) // 0: an id of another form
	f := &Function{
		layer: layer, spec: spec, number: number, state: &pb.FunctionState{Id: spec.Id, Phase: isCold},
		interrupt: func() {}, wake: make(chan struct{}, 1), warmed: make(chan struct{}),
	}
	if f.ids, f.cannot = unitsOf(layer, spec, with); f.cannot == nil {
		f.tally = newTally(layer, spec, m)
	}
	return f
}

// unitsOf returns a function's units as the device names them, or why the host can never serve them.
func unitsOf(layer int, f *pb.Function, with United) (ids []forward.ExpertID, err error) {
	is := f.GetKind() == plan.United
	if is && (with == nil || !with.Has(int(f.GetWay()), f.GetBundle())) {
		return nil, fmt.Errorf("function %s: this host has no weights of united experts of way %d in bundle %016x; give it that bundle, or plan it elsewhere", f.GetId(), f.GetWay(), f.GetBundle())
	}
	for _, e := range f.GetExperts() {
		number, ok := int(e), true
		if is {
			number, ok = with.Number(layer, int(f.Way), int(e))
		}
		if !ok {
			return nil, fmt.Errorf("function %s: bundle %016x has no united expert of group %d in layer %d; plan without it", f.GetId(), f.GetBundle(), e, layer)
		}
		ids = append(ids, forward.ExpertID{Layer: layer, Expert: number})
	}
	return ids, nil
}

// ID returns the function's, as plans name it.
func (f *Function) ID() string { return f.spec.Id }

// Layer returns the layer whose experts it has.
func (f *Function) Layer() int { return f.layer }

// Number returns the id as times name it.
func (f *Function) Number() uint64 { return f.number }

// Computed counts a dispatch that was computed: the expert of each row, and the time it took.
func (f *Function) Computed(experts []uint32, took *pb.FunctionTime) { f.tally.add(experts, took) }

func (f *Function) eachExpert(do func(forward.ExpertID)) {
	for _, id := range f.ids { // none, if the host cannot serve it
		do(id)
	}
}

func (f *Function) load(ctx context.Context, d device.Device, priority int64) {
	for _, id := range f.ids {
		f.experts = append(f.experts, d.Load(ctx, id, priority))
	}
}

// loaded waits for the experts. An error names the first that is not warm.
func (f *Function) loaded(ctx context.Context) error {
	for _, t := range f.experts {
		if err := t.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unpin gives the experts back, each as soon as its load has ended; they stay in memory until
// others need the room. What has not ended when ctx does is cancelled.
func (f *Function) unpin(ctx context.Context) {
	for _, t := range f.experts {
		_ = t.Wait(ctx) // rows load what is missing
		t.Release()
	}
	f.experts = nil
}

// release gives the experts back and frees those that no other function holds.
func (f *Function) release(d device.Device) {
	for _, t := range f.experts {
		t.Release()
		_ = d.Evict(t.ID) // in use elsewhere is no error here
	}
	f.experts = nil
}

// coldStart is how rows found a function cold: the first ones load it, all that
// come meanwhile wait for the same load.
type coldStart struct {
	began time.Time
	warm  bool
	// over is when the first rows were computed; zero: not yet. What came before was
	// sent by somebody who had no answer.
	over time.Time
	// computed is what was computed of that, by the attempt.
	computed map[share]uint32
}

// maxComputed is more than waits for one load: that many are computed after it only if
// nothing that had waited was.
const maxComputed = 1024

// seenWithin is how much later than a dispatch's end those are seen that came
// meanwhile; rows are not sent again so soon.
const seenWithin = 50 * time.Millisecond

// share names rows of a step that one function gets, whatever the attempt.
type share struct {
	owner       string
	epoch, step uint64
	microbatch  uint32
	layer, part uint32
	aggregator  string
	first, rows int
}

func shareOf(d *pb.Dispatch) share {
	k := d.GetKey()
	of := share{
		owner: k.GetOwner(), epoch: k.GetEpoch(), step: k.GetStep(), microbatch: k.GetMicrobatch(),
		layer: k.GetLayer(), part: k.GetPart(), aggregator: k.GetAggregator(), rows: len(d.GetPlace()),
	}
	if of.rows > 0 {
		of.first = int(d.Place[0])
	}
	return of
}

func newColdStart() *coldStart {
	return &coldStart{began: time.Now(), computed: map[share]uint32{}}
}

// past reports whether what arrives then did not wait for the cold start.
func (c *coldStart) past(arrived time.Time) bool {
	return !c.over.IsZero() && arrived.After(c.over.Add(seenWithin)) || len(c.computed) >= maxComputed
}

// repeats reports whether the same rows, to the same aggregator, were computed for an
// earlier attempt after these came: both had waited for the same cold start.
func (c *coldStart) repeats(d *pb.Dispatch) bool {
	of, attempt := shareOf(d), d.GetKey().GetAttempt()
	if earlier, computed := c.computed[of]; computed && earlier < attempt {
		return true
	}
	c.computed[of] = attempt
	return false
}

// What a function's state says of it. The table's lock is held.

func (f *Function) loads() bool {
	if f.cannot != nil {
		return false
	}
	return f.want == warm || f.want == kept || f.want == cold && f.roused
}

// lacks reports whether the function is to be in memory and is neither there nor refused, or is
// offloaded and takes no rows yet.
func (f *Function) lacks() bool {
	if f.offloaded && f.want != nothing {
		return f.receiving == nil
	}
	return f.loads() && f.state.Phase != isWarm && f.state.Phase != isRefused
}

func (f *Function) sleeps() bool {
	return f.state.Phase == isWarm && f.busy.Load() == 0 && f.waits == 0
}

func (f *Function) urgency() int64 {
	if f.demanded {
		return f.priority + device.Demanded
	}
	return f.priority
}

func (f *Function) begin() {
	f.busy.Add(1)
	if f.want == cold {
		f.unused = time.Now()
	}
}

// endWaits lets the dispatches go on that wait for a function.
func (f *Function) endWaits() {
	f.demanded = false
	select {
	case <-f.warmed:
	default:
		close(f.warmed)
	}
}

// is makes a state of the function, in the group or not as it is now.
func (f *Function) is(phase pb.FunctionPhase, reason string) *pb.FunctionState {
	return &pb.FunctionState{Id: f.spec.Id, Phase: phase, Joined: f.receiving != nil, Reason: reason}
}

// shown returns what the others see of a function: one that is offloaded computes what comes,
// as a warm one does, so nobody hears of it when its experts come or go.
func (f *Function) shown() *pb.FunctionState {
	state := proto.CloneOf(f.state)
	if f.offloaded && state.Joined && (state.Phase == isWarming || state.Phase == isCold) {
		state.Phase = isWarm
	}
	return state
}

// item returns a function as an order sees it: as its first expert.
func (f *Function) item() *policy.Item {
	item := &policy.Item{Urgency: policy.Planned, Priority: f.priority, Used: uint64(max(0, f.unused.UnixNano()))}
	if len(f.spec.Experts) > 0 {
		item.Unit = unit.Unit{Layer: f.layer, Kind: unit.Kind(f.spec.Kind), Index: int(f.spec.Experts[0])}
	}
	if f.demanded {
		item.Urgency = policy.Demanded
	}
	return item
}

// phaseNames are those of the metrics; kept functions are warm ones.
var phaseNames = map[pb.FunctionPhase]string{
	isCold: "cold", isWarming: "warming", isWarm: "warm", isDraining: "draining", isRefused: "refused",
}

// phase returns the function's, as the metrics name it.
func (f *Function) phase() string {
	state := f.shown()
	if state.Phase == isWarm && !state.Joined {
		return "kept"
	}
	return phaseNames[state.Phase]
}
