package expert

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/transport/wire"
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

// function is a replica of a function on this host.
//
//	wanted ─▶ warming ─loaded, joined─▶ warm ─▶ retired ─no gate uses it─▶ draining ─▶ resting ─▶ gone
//	   │         │  ▲                    │ ▲       └───────────wanted again──▶ warm ◀─────┘
//	   │         ▼  │ room again         │ │
//	   │       refused                   │ └first rows, by way of warming
//	   └─wanted cold─▶ cold, joined ◀────┘
//	                   when it is wanted cold and rows have not come for long
//
// One that is borrowed (borrow.go) is wanted cold, though the plan wants it elsewhere,
// and retires when nobody needs it. What rests is warm, takes no rows, and waits in memory to be wanted again
// (rest.go). One that is wanted no more before it is warm goes at once, its loads
// are cancelled. Whatever takes time is done by the function's own keeper (keep.go),
// so that none waits for another.
type function struct {
	layer  int
	spec   *pb.Function
	number uint64                        // the id as times name it
	rows   map[uint32]prometheus.Counter // the experts' counters in the metrics
	spent  spent                         // by its dispatches

	// Of the keeper alone.
	experts []*device.Ticket // from when it is to be loaded until it is dropped
	// roomless is since when the device had no room, in steps of the keeper.
	roomless int
	// grouped says that it may have a group, which the host has made or joined.
	grouped bool

	// Guarded by the service's mu.
	want      pb.Want // nothing: retired
	retiredBy uint64  // the first plan of the layer that does not want it here; 0 while it is wanted
	alone     bool    // no other host is to have it
	offloaded bool    // the plan wants it warm, and it is warm as room allows
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
	receiving group // nil: it is not in it
	running   bool  // the keeper
	interrupt context.CancelFunc
	busy      atomic.Int32  // dispatches under way; they begin under mu
	wake      chan struct{} // a note for the keeper
	// cannot is why the host can never serve it; nil: it can.
	cannot error
	warmed chan struct{} // closed when it is warm, or is dropped
}

func (s *Service) newFunction(layer int, spec *pb.Function) *function {
	number, _ := strconv.ParseUint(spec.Id, 16, 64) // 0: an id of another form
	f := &function{
		layer: layer, spec: spec, number: number, rows: map[uint32]prometheus.Counter{}, state: &pb.FunctionState{Id: spec.Id, Phase: isCold},
		interrupt: func() {}, wake: make(chan struct{}, 1), warmed: make(chan struct{}),
	}
	if f.cannot = s.able(spec); f.cannot != nil {
		return f
	}
	for _, e := range spec.Experts {
		f.rows[e] = s.metrics.ExpertRows(layer, int(e))
	}
	return f
}

func isPermanent(err error) bool {
	var mismatch *wire.IdentityError
	return errors.As(err, &mismatch) || errors.Is(err, wire.ErrMalformed)
}

// load wants the function's experts on a device until ctx ends.
func (f *function) load(ctx context.Context, d device.Device, priority int64) {
	for _, e := range f.spec.Experts {
		f.experts = append(f.experts, d.Load(ctx, forward.ExpertID{Layer: f.layer, Expert: int(e)}, priority))
	}
}

// loaded waits for the experts. An error names the first that is not warm.
func (f *function) loaded(ctx context.Context) error {
	for _, t := range f.experts {
		if err := t.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// release gives the experts back and frees those that no other function holds.
func (f *function) release(d device.Device) {
	for _, t := range f.experts {
		t.Release()
		_ = d.Evict(t.ID) // in use elsewhere is no error here
	}
	f.experts = nil
}

// loads says whether the function's experts are to be in memory; the service's mu is held.
func (f *function) loads() bool {
	if f.cannot != nil {
		return false
	}
	return f.want == warm || f.want == kept || f.want == cold && f.roused
}
