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
	if !fl.trace.IsValid() && span.IsSampled() {
		fl.trace = span
	}
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

// stateOf returns how rows find an expert.
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

// lag is for the layer that a step has reached: when its rows have come, or the hint that is made at their gate, which
// is foretold while the rows are on their way and computed. Before layer 0 it is the step's first hint.
type lag struct {
	rows time.Time // zero: they have not come, or both have
	hint time.Time // the same
	led  bool      // the lead of the step has been observed
}

// rowsCame is for a layer's rows, before the step has advanced to it.
func (f *Follower) rowsCame(fl *flow, layer int, phase string) {
	now := time.Now()
	switch {
	case layer > fl.at:
		led := fl.at < 0 && layer == 0 && !fl.lag.hint.IsZero()
		if led {
			f.Metrics.HintLead.WithLabelValues(phase).Observe(now.Sub(fl.lag.hint).Seconds())
		}
		fl.lag, fl.phase = lag{rows: now, led: led}, phase
	case layer == fl.at && !fl.lag.hint.IsZero():
		f.Metrics.HintLag.WithLabelValues(phase).Observe(0)
		fl.lag = lag{}
	}
}

// hintCame is for the hint that is made at a layer's gate, or before layer 0 (-1), before the step has advanced to it.
func (f *Follower) hintCame(fl *flow, layer int) {
	now := time.Now()
	switch {
	case layer > fl.at, layer < 0 && fl.at < 0 && fl.lag.hint.IsZero():
		fl.lag = lag{hint: now}
	case layer < 0 && fl.at == 0 && !fl.lag.rows.IsZero() && !fl.lag.led:
		f.Metrics.HintLead.WithLabelValues(fl.phase).Observe(0)
		fl.lag.led = true
	case layer == fl.at && !fl.lag.rows.IsZero():
		f.Metrics.HintLag.WithLabelValues(fl.phase).Observe(now.Sub(fl.lag.rows).Seconds())
		fl.lag = lag{}
	}
}
