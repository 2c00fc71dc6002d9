package expert

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// function is a replica of a function on this host.
//
//	                 ┌──────newer plan without it, cancelled──────┐
//	wanted ──▶ coming ──loaded, joined──▶ warm ──▶ retired ──no gate uses it──▶ drained, released
//	                                       └──newer plan without it
type function struct {
	layer     int
	spec      *pb.Function
	number    uint64 // the id as times name it
	receiving *bus.Receiving
	// experts are tickets of the device, from when the function is wanted until
	// it is dropped: nobody else's eviction takes an expert from it.
	experts []*device.Ticket
	// priority of the loads: a newer plan's are before an older one's.
	priority int64
	// retiredBy is the plan that no longer has the function; 0 while it serves.
	retiredBy uint64
	// rows are the experts' counters in the metrics.
	rows  map[uint32]prometheus.Counter
	began atomic.Int64 // when the dispatch came that is being computed, Unix nanoseconds; 0: none is
}

func (s *Service) newFunction(layer int, spec *pb.Function, version uint64) *function {
	number, _ := strconv.ParseUint(spec.Id, 16, 64) // 0: an id of another form
	f := &function{layer: layer, spec: spec, number: number, priority: int64(version), rows: map[uint32]prometheus.Counter{}}
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
func (f *function) load(ctx context.Context, d device.Device) {
	for _, e := range f.spec.Experts {
		f.experts = append(f.experts, d.Load(ctx, forward.ExpertID{Layer: f.layer, Expert: int(e)}, f.priority))
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
