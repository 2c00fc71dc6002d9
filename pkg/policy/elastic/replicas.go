package elastic

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/scale"
)

// scale says how many replicas each expert is to have. What there is stays, until it
// was not needed for the horizon; layers that want more share the slots that are
// left. tight leaves none beyond each expert's first.
func (r *round) scale(tight bool) {
	spare, able := r.spare(len(r.layers) * r.c.model.Experts)
	r.able = able
	if tight {
		spare = 0
	}
	asked, most := 0, r.cap(spare)
	r.each(r.layers, func(w *work) { w.need = r.justified(w, most) })
	for _, w := range r.layers {
		if left := r.cap(spare); left < most { // those before have some of what there was to spare
			w.need = r.justified(w, left)
		}
		w.stay = r.staying(w, tight)
		if !tight {
			r.retain(w)
		}
		w.asks = max(0, extra(union(w.need, w.stay))-extra(w.stay))
		asked += w.asks
		spare -= extra(w.stay)
	}
	slots := make(map[*work]int, len(r.layers))
	for _, w := range r.layers {
		share := w.asks
		if asked > max(0, spare) {
			share = max(0, spare) * w.asks / max(1, asked)
		}
		asked, spare = asked-w.asks, spare-share
		slots[w] = extra(w.stay) + share
	}
	r.each(r.layers, func(w *work) { r.goal(w, slots[w]) })
}

// justified are the replicas by load, but for those that save too little.
func (r *round) justified(w *work, most int) []int {
	need := r.needed(w, most)
	if least := r.byRate(w); extra(need) > least {
		need = r.needed(w, least)
	}
	return need
}

// goal is what a layer's replicas are to be, if that is worth it: what there is and
// what is needed, or where that is too much, what is needed most.
func (r *round) goal(w *work, slots int) {
	w.want = union(w.need, w.stay)
	if most := r.cap(slots); extra(w.want) > most {
		w.want = r.needed(w, most)
	}
}

// union has of each expert the more replicas.
func union(a, b []int) []int {
	all := make([]int, len(a))
	for e := range a {
		all[e] = max(a[e], b[e])
	}
	return all
}

func extra(replicas []int) (n int) {
	for _, of := range replicas {
		n += max(0, of-1)
	}
	return n
}

// cap is how many replicas a layer may have beyond each expert's first. Each lets an expert
// leave its function, so that a layer has no more than twice the functions that it is dealt to.
func (r *round) cap(slots int) int {
	if !r.deal(0).Whole() {
		slots = min(slots, r.deal(0).Hosts())
	}
	if r.c.mode.most != nil {
		slots = min(slots, r.c.mode.most(r.c.model.Experts))
	}
	byMemory := min(r.c.s.MemoryCap/max(1, r.k.Model.ExpertBytes), math.MaxInt32)
	return max(0, min(slots, int(byMemory), plan.MaxPlacements-r.c.model.Experts))
}

// needed are the replicas by load; as they are while nobody has told of any.
func (r *round) needed(w *work, most int) []int {
	need := make([]int, len(w.idle))
	var experts []scale.Expert
	for e := range need {
		switch {
		case w.idle[e]:
		case w.loads == nil && most == 0:
			need[e] = 1
		case w.loads == nil:
			need[e] = max(1, w.old.count(e, warm))
		default:
			experts = append(experts, scale.Expert{ID: uint32(e), Load: w.loads[e], Bytes: max(1, r.k.Model.ExpertBytes)})
		}
	}
	if len(experts) == 0 {
		return need
	}
	if r.c.mode.whole != nil {
		return r.counted(w, need, most)
	}
	d := r.c.mode.scale(experts, scale.Settings{
		CV: r.c.s.CV, MemoryCap: uint64(most) * max(1, r.k.Model.ExpertBytes), MaxReplicas: max(1, r.able),
	})
	for _, e := range d.Experts {
		need[e.ID] = e.Replicas
	}
	return need
}

// counted are the replicas of what a policy would have anew that decides at once; need has
// those that it is not asked about.
func (r *round) counted(w *work, need []int, most int) []int {
	want := make([]int, len(need))
	for e := range want {
		if !w.idle[e] {
			want[e] = 1
		}
	}
	var l layout
	if most > 0 {
		awake := w.old.clone()
		for e := range awake {
			if !w.idle[e] && awake.count(e, warm) == 0 { // it is to wake
				awake[e] = nil
			}
		}
		l = r.decided(w, ask{from: awake, want: want, loads: w.loads, spare: most})
	}
	for e := range need {
		if need[e] = want[e]; l != nil && want[e] > 0 {
			need[e] = max(1, l.count(e, warm))
		}
	}
	return need
}

// staying are the replicas that there are, without those that were not needed for
// the horizon, or for as long as the policy has copies stay: a load that comes and goes would
// have them loaded again and again.
// When one's time is over, those go with it that have waited for half as long, as
// each change makes gates and hosts go over.
func (r *round) staying(w *work, tight bool) []int {
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
	least := max(r.c.s.Horizon, w.copiesStay)
	if longest >= least {
		least /= 2
	}
	stay := make([]int, len(w.need))
	for e, need := range w.need {
		stay[e] = max(min(need, 1), w.old.count(e, warm))
		if need == 0 || tight || r.now-w.surplus[e] >= least && w.mayTurn(r.now, e, false) {
			stay[e] = min(stay[e], need)
		}
	}
	if most := r.cap(math.MaxInt32); extra(stay) > most {
		stay = r.needed(w, most)
	}
	return stay
}

// retain lets a layer's replicas stay that are about to go and still save half of what they are worth:
// a decision anew may want others that are as good. Within the cap, and only where the last steps can be tried.
func (r *round) retain(w *work) {
	if !w.hasRows() || w.last == nil || r.c.mode.every > 0 || r.c.s.Worth == 0 {
		return
	}
	without, going, all := w.old.clone(), 0, slices.Clone(w.stay)
	for e, on := range w.old {
		warmOn := w.old.having(e, warm)
		if n := len(warmOn) - w.stay[e]; len(on) > 0 && n > 0 && w.stay[e] > 0 {
			without.set(e, warm, r.retire(w, e, warmOn)...)
			going += n
			all[e] = len(warmOn)
		}
	}
	if going == 0 || extra(all) > r.cap(math.MaxInt32) {
		return
	}
	if r.cost(w, without).busy-r.cost(w, w.old).busy > r.worth()/2*float64(going) {
		w.stay = all
	}
}
