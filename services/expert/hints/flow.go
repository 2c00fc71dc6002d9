package hints

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// flow is the step of a microbatch that is under way.
type flow struct {
	number uint64
	step   uint64
	at     int  // the layer that it has reached; -1: none
	rows   bool // some have come of the step; else a hint alone has told of it
	wants  map[forward.ExpertID]*want
	// asked are the experts that its dispatches have asked for.
	asked map[forward.ExpertID]bool
	lag   lag
	phase string // of its rows
	seen  time.Time
	trace trace.SpanContext // of the step; not valid: it is not traced, or nothing has come of it
}

// want is an expert that a step will probably ask for.
type want struct {
	flow *flow
	id   forward.ExpertID
	p    float32
	came time.Time
	// caused says that the expert was not in memory, nor on its way there.
	caused bool
	// after is 0 of what the flow's step will ask for, and how many layers a step has of what the next will.
	after int

	asked  bool // rows have come
	loaded bool // it is in memory, or was: whether it stays there the device's order says
	over   bool
	ticket *device.Ticket // of the load; nil: there is none, or it has yielded
	bytes  int64          // of the expert
	spans  traced
}

// priorities is what a probability of 1 is worth at the next layer.
const priorities = 1 << 40

func (fl *flow) ahead(layer, after int) int { return max(1, after+layer-fl.at) }

func (w *want) priority() int64 { return worth(w.p, w.flow.ahead(w.id.Layer, w.after)) }

func worth(p float32, ahead int) int64 {
	return int64(float64(p) * priorities / float64(ahead))
}

func (w *want) has() bool { return w.ticket != nil && w.ticket.Err() == nil }

func (w *want) roomless() bool {
	no := (*device.RefusedError)(nil)
	return w.ticket == nil || errors.As(w.ticket.Err(), &no)
}

func (w *want) there() {
	w.loaded = true
	w.release()
}

func (w *want) release() {
	if w.ticket != nil {
		w.ticket.Release()
		w.ticket = nil
	}
}

// flow is that of a microbatch, at a step, of which rows or a hint has come; nil if it is at a later
// one. Rows are believed rather than hints.
func (f *Follower) flow(id flowID, step uint64, rows bool) *flow {
	if f.over {
		return nil
	}
	fl := f.flows[id]
	if fl == nil {
		f.limit()
		f.begun++
		fl = &flow{number: f.begun, step: step, at: -1, wants: map[forward.ExpertID]*want{}, asked: map[forward.ExpertID]bool{}}
		f.flows[id] = fl
		f.begin(fl)
	}
	if step < fl.step && (!rows || fl.rows) {
		return nil
	}
	if step != fl.step {
		f.endStep(fl, step > fl.step)
		clear(fl.asked)
		fl.step, fl.at, fl.rows, fl.trace, fl.lag = step, -1, false, trace.SpanContext{}, lag{}
		f.begin(fl)
	}
	fl.seen, fl.rows = time.Now(), fl.rows || rows
	return fl
}

// limit makes place for one more flow.
func (f *Follower) limit() {
	if len(f.flows) < maxFlows {
		return
	}
	var oldest flowID
	var seen time.Time
	for id, fl := range f.flows {
		if seen.IsZero() || fl.seen.Before(seen) {
			oldest, seen = id, fl.seen
		}
	}
	f.leave(oldest, f.flows[oldest])
}

// leave forgets a flow.
func (f *Follower) leave(id flowID, fl *flow) {
	f.endAll(fl)
	delete(f.flows, id)
	f.learn(func(o Outlook) {
		o.Over(fl.number)
		o.End(fl.number)
	})
}

// advance says that a step has reached a layer: what is behind it is over, what its load has
// not begun for will be loaded for the rows if they come, and the rest is ranked anew.
func (f *Follower) advance(fl *flow, layer int) {
	if layer <= fl.at {
		return
	}
	fl.at = layer
	f.learn(func(o Outlook) { o.At(fl.number, layer) })
	for _, w := range fl.wants {
		switch {
		case w.after > 0 || w.id.Layer > layer:
		case w.id.Layer < layer:
			f.end(w)
		case w.ticket != nil && f.Device.State(w.id).Queued:
			w.release()
		}
	}
	for _, w := range f.waiting(fl) {
		f.rank(w)
	}
}

// chosen says that a hint's layer is the one that its step has reached: it says which experts the gate has chosen.
func chosen(h *pb.Hint, l *pb.LayerHint) bool {
	return l.StepsAhead == 0 && l.Layer+1 == h.Reached && l.Kind == pb.FunctionKind_FUNCTION_KIND_ROUTED
}

// pass is for what a gate has chosen: no rows will come for the layer's other experts, so that their loads end, for
// which others may have room, and the link.
func (f *Follower) pass(fl *flow, h *pb.Hint) {
	ended := false
	for _, l := range h.Layers {
		if !chosen(h, l) {
			continue
		}
		for i, u := range l.Unit {
			w := fl.wants[forward.ExpertID{Layer: int(l.Layer), Expert: int(u)}]
			if w != nil && w.after == 0 && !w.asked && !w.loaded && l.Probability[i] == 0 {
				f.end(w)
				ended = true
			}
		}
	}
	if ended {
		f.again(fl)
	}
}

// again ranks what had no room.
func (f *Follower) again(fl *flow) {
	for _, w := range f.waiting(fl) {
		if !w.loaded && w.roomless() {
			f.rank(w)
		}
	}
}

// waiting returns the wants of layers that the flow has yet to reach, those first that are worth most: the first that is
// ranked begins at once where the link is free, and has the room. The slice is the follower's.
func (f *Follower) waiting(fl *flow) []*want {
	all := f.most[:0]
	for _, w := range fl.wants {
		if w.after > 0 || w.id.Layer > fl.at {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *want) int {
		return cmp.Or(cmp.Compare(b.priority(), a.priority()), cmp.Compare(a.after, b.after), cmp.Compare(a.id.Layer, b.id.Layer), cmp.Compare(a.id.Expert, b.id.Expert))
	})
	f.most = all
	return all
}

// rank has the device load a want with the priority that it has by now. What is in memory, or was, it
// does not load again.
func (f *Follower) rank(w *want) {
	if w.loaded || f.warm(w.id) {
		w.there()
		return
	}
	old := w.ticket
	w.ticket = f.Device.Load(context.Background(), w.id, device.Hinted+w.priority())
	w.bytes = w.ticket.Bytes
	if old != nil {
		old.Release()
	}
	if w.roomless() {
		f.count("roomless", 1)
	}
}

func (f *Follower) warm(id forward.ExpertID) bool { return f.Device.State(id).Phase == device.Warm }

// ranked returns the wants that are not over, those first that are worth least: rows of some have
// come, and others are less probable, or further away.
func (f *Follower) ranked() []*want {
	f.sweep()
	all := slices.Clone(f.line)
	worth := func(w *want) int64 {
		if w.asked {
			return -1
		}
		return w.priority()
	}
	slices.SortStableFunc(all, func(a, b *want) int { return cmp.Compare(worth(a), worth(b)) })
	return all
}

func (f *Follower) sweep() { f.line = slices.DeleteFunc(f.line, func(w *want) bool { return w.over }) }

// end ends a want; rows for which it was right have been counted.
func (f *Follower) end(w *want) {
	if w.caused && !w.asked {
		switch s := f.Device.State(w.id); {
		case w.loaded || w.has() && s.Phase == device.Warm:
			f.prefetched(w, "wasted")
		case w.has() && !s.Queued:
			f.prefetched(w, "cancelled")
		}
	}
	f.show(w)
	w.release()
	w.over = true
	f.live--
	delete(w.flow.wants, w.id)
}

// endStep is the end of a step: what the next one was said to ask for is that one's, if it begins.
func (f *Follower) endStep(fl *flow, next bool) {
	for _, w := range fl.wants {
		if w.after == 0 || !next {
			f.end(w)
		}
		w.after = 0
	}
}

func (f *Follower) endAll(fl *flow) {
	for _, w := range fl.wants {
		f.end(w)
	}
}

func (f *Follower) prefetched(w *want, outcome string) {
	w.spans.outcome = outcome
	f.Metrics.Prefetched.WithLabelValues(outcome).Add(float64(w.bytes))
}

// unloaded is the outcome of a want, in its span alone, for which no load has begun before its step was at its layer.
const unloaded = "unloaded"

// traced is what a want's spans tell beside the want itself.
type traced struct {
	outcome string    // of metrics; empty until it is known
	met     time.Time // when rows asked for it; zero: none have
	// began and ended are those of the load; zero: it has not ended.
	began, ended time.Time
}

// Loaded says that a load has ended well.
func (f *Follower) Loaded(e device.Ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fl := range f.flows {
		if w := fl.wants[e.ID]; w != nil {
			if w.has() && w.spans.ended.IsZero() {
				w.spans.ended = time.Now()
				w.spans.began = w.spans.ended.Add(-e.Took)
			}
			w.there()
		}
	}
}

// show makes the spans of a want that is over and was not in memory when its hint came: one from the hint to the rows
// or to the end of the want, and below it one of the load. What a step hints at whose rows ask this host for nothing
// has no trace.
func (f *Follower) show(w *want) {
	if f.Tracer == nil || !w.caused || !w.flow.trace.IsValid() {
		return
	}
	s := &w.spans
	if s.outcome == "" {
		s.outcome = unloaded
	}
	ctx := trace.ContextWithSpanContext(context.Background(), w.flow.trace)
	ctx, span := f.Tracer.Child(ctx, telemetry.SpanPrefetch, trace.WithTimestamp(w.came), telemetry.Layer(uint32(w.id.Layer)), telemetry.Prefetched(w.id.Expert, w.p, s.outcome))
	end := s.met
	if end.IsZero() {
		end = time.Now()
	}
	if !s.ended.IsZero() {
		_, load := f.Tracer.Child(ctx, telemetry.SpanLoad, trace.WithTimestamp(s.began), trace.WithAttributes(telemetry.AttrBytes.Int64(w.bytes)))
		load.End(trace.WithTimestamp(s.ended))
	}
	span.End(trace.WithTimestamp(latest(end, s.ended)))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
