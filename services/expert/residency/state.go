package residency

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device"
	policy "github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a function's state says of it. The table's lock is held.

// loads says whether the function's experts are to be in memory.
func (f *Function) loads() bool {
	if f.cannot != nil {
		return false
	}
	return f.want == warm || f.want == kept || f.want == cold && f.roused
}

// lacks says whether the function is to be in memory and is neither there nor refused, or is
// offloaded and takes no rows yet.
func (f *Function) lacks() bool {
	if f.offloaded && f.want != nothing {
		return f.receiving == nil
	}
	return f.loads() && f.state.Phase != isWarm && f.state.Phase != isRefused
}

// sleeps says that a function is warm, and that no rows are under way or wait.
func (f *Function) sleeps() bool {
	return f.state.Phase == isWarm && f.busy.Load() == 0 && f.waits == 0
}

// urgency is the priority of a function's loads.
func (f *Function) urgency() int64 {
	if f.demanded {
		return f.priority + device.Demanded
	}
	return f.priority
}

// begin counts a dispatch that is under way.
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

// shown is what the others see of a function: one that is offloaded computes what comes,
// as a warm one does, so nobody hears of it when its experts come or go.
func (f *Function) shown() *pb.FunctionState {
	state := proto.CloneOf(f.state)
	if f.offloaded && state.Joined && (state.Phase == isWarming || state.Phase == isCold) {
		state.Phase = isWarm
	}
	return state
}

// item is a function as an order sees it: as its first expert.
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

// phase is the function's, as the metrics name it.
func (f *Function) phase() string {
	state := f.shown()
	if state.Phase == isWarm && !state.Joined {
		return "kept"
	}
	return phaseNames[state.Phase]
}
