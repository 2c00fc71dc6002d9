package residency

import (
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A plan by load gives the experts that are wanted most more replicas than others. A host that
// offloads holds such a function's experts for as long as the plan says so, in up to half of
// its memory; the rest is for what comes and goes. A plan that gives all functions of a layer as
// many replicas, as one that does not go by load, holds none.

// pins reports whether an offloaded function is to be held.
func (t *table) pins(l *plan.Layer, f *Function, spec *pb.Function) bool {
	return plan.WantOn(spec, t.Host) == warm && plan.Held(l.LayerPlan, spec) && t.pinned(f)+t.memory.whole(f) <= t.Device.Memory().Budget/2
}

func (t *table) pin(f *Function, held bool) {
	if f.pinned != held {
		f.pinned = held
		t.kick(f)
	}
}

// pinned returns the bytes of what is held but for one function.
func (t *table) pinned(but *Function) (bytes int64) {
	for _, f := range t.functions {
		if f.pinned && f != but {
			bytes += t.memory.whole(f)
		}
	}
	return bytes
}
