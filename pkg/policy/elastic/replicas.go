package elastic

import (
	"math"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// scale says how many replicas each expert is to have. Layers share the slots
// that one replica of every expert leaves: each gets what it asks for, or where
// there are not enough, its part of them. tight leaves none beyond the first.
func (r *round) scale(tight bool) {
	spare, able := r.spare(len(r.layers) * r.c.model.Experts)
	if tight {
		spare = 0
	}
	held, need := 0, 0
	for _, w := range r.layers {
		w.need = r.needed(w, spare, able)
		w.held = r.heldBack(w)
		held, need = held+extra(w.held), need+extra(w.need)
	}
	for _, w := range r.layers {
		switch {
		case need > spare:
			w.want = r.needed(w, spare*extra(w.need)/need, able)
		case held > spare || extra(w.held) > r.cap(spare):
			w.want = w.need
		default:
			w.want = w.held
		}
	}
}

// extra are the replicas beyond each expert's first.
func extra(replicas []int) (n int) {
	for _, of := range replicas {
		n += max(0, of-1)
	}
	return n
}

// cap is how many replicas a layer may have beyond each expert's first.
func (r *round) cap(slots int) int {
	byMemory := min(r.c.s.MemoryCap/max(1, r.k.Model.ExpertBytes), math.MaxInt32)
	return max(0, min(slots, int(byMemory), plan.MaxPlacements-r.c.model.Experts))
}

// needed are the replicas by load; as they are while nobody has told of any.
func (r *round) needed(w *work, slots, able int) []int {
	need := make([]int, len(w.idle))
	var experts []scale.Expert
	for e := range need {
		switch {
		case w.idle[e]:
		case w.loads == nil:
			need[e] = max(1, w.old.count(e, warm))
		default:
			experts = append(experts, scale.Expert{ID: uint32(e), Load: w.loads[e], Bytes: max(1, r.k.Model.ExpertBytes)})
		}
	}
	if len(experts) == 0 {
		return need
	}
	d := r.c.mode.scale(experts, scale.Settings{
		CV: r.c.s.CV, MemoryCap: uint64(r.cap(slots)) * max(1, r.k.Model.ExpertBytes), MaxReplicas: max(1, able),
	})
	for _, e := range d.Experts {
		need[e.ID] = e.Replicas
	}
	return need
}

// heldBack are the replicas when none is retired that was needed within the
// horizon: a load that comes and goes would have them loaded again and again. When
// one's time is over, those go with it that have waited for half as long: each
// change makes gates and hosts go over.
func (r *round) heldBack(w *work) []int {
	longest := 0.0
	for e, need := range w.need {
		switch have := w.old.count(e, warm); {
		case need >= have || need == 0:
			w.surplus[e] = math.NaN()
		case math.IsNaN(w.surplus[e]):
			w.surplus[e] = r.now
		default:
			longest = max(longest, r.now-w.surplus[e])
		}
	}
	least := r.c.s.Horizon
	if longest >= least {
		least /= 2
	}
	held := make([]int, len(w.need))
	for e, need := range w.need {
		held[e] = need
		if r.now-w.surplus[e] < least {
			held[e] = w.old.count(e, warm)
		}
	}
	return held
}
