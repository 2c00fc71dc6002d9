package hints

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Arrived counts the experts that a dispatch asks for, once a step, by whether they are there,
// before anything is done about those that are not. The span is one of
// the dispatch's trace.
func (f *Follower) Arrived(span trace.SpanContext, d *pb.Dispatch) {
	k := d.GetKey()
	if uint64(k.GetLayer()) >= uint64(f.Layers) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.flow(flowID{k.GetOwner(), k.GetEpoch(), k.GetMicrobatch()}, k.GetStep(), true)
	if fl == nil {
		return
	}
	fl.underWay(span)
	phase, used := phaseOf(d), []forward.ExpertID(nil)
	f.rowsCame(fl, int(k.GetLayer()), phase)
	f.advance(fl, int(k.GetLayer()))
	for _, e := range d.Expert {
		id := forward.ExpertID{Layer: int(k.GetLayer()), Expert: int(e)}
		if uint64(e) >= uint64(f.Experts) || fl.asked[id] {
			continue
		}
		fl.asked[id] = true
		used = append(used, id)
		state := f.stateOf(id)
		f.Metrics.Accesses.WithLabelValues(state, phase).Inc()
		if w := fl.wants[id]; w != nil && w.after == 0 {
			f.meet(w, state)
		}
	}
	f.visit(used)
}

// stateOf is how rows find an expert.
func (f *Follower) stateOf(id forward.ExpertID) string {
	switch s := f.Device.State(id); {
	case s.Phase == device.Warm:
		return "hit"
	case s.Phase == device.Loading && !s.Queued:
		return "late"
	}
	return "miss"
}

// meet is for rows that a hint foretold.
func (f *Follower) meet(w *want, state string) {
	w.asked, w.spans.met = true, time.Now()
	f.Metrics.HintAge.Observe(w.spans.met.Sub(w.came).Seconds())
	if !w.caused || !w.loaded && !w.has() {
		return
	}
	switch {
	case state == "hit":
		f.prefetched(w, "used")
	case state == "late":
		f.prefetched(w, "late")
	case w.loaded: // and went again
		f.prefetched(w, "wasted")
	}
}

// Stalled adds up how long dispatches wait for experts.
func (f *Follower) Stalled(d *pb.Dispatch, waited time.Duration) {
	f.Metrics.Stalls.WithLabelValues(phaseOf(d)).Add(waited.Seconds())
}

func phaseOf(d *pb.Dispatch) string {
	if d.GetPrefill() {
		return "prefill"
	}
	return "decode"
}
