package deployment

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Traffic counts what a connection carries, by kind of stream: for Prometheus,
// and its redeliveries for the members. It is a bus.Observer.
type Traffic struct {
	bus.NoObserver
	prefix      string
	metrics     *telemetry.Metrics
	in, out     map[string]telemetry.Traffic // found beforehand: hot paths only add
	receivers   map[string]string            // of messages with rows, by kind of stream
	redelivered atomic.Uint64
}

// NewTraffic counts the subjects under a prefix.
func NewTraffic(prefix string, m *telemetry.Metrics) *Traffic {
	t := &Traffic{prefix: prefix + ".", metrics: m, in: map[string]telemetry.Traffic{}, out: map[string]telemetry.Traffic{}, receivers: catalog.Receivers()}
	for _, kind := range catalog.Kinds() {
		t.in[kind], t.out[kind] = m.In(kind), m.Out(kind)
		m.Redeliveries(kind) // at 0
	}
	for _, s := range catalog.All() {
		if s.Queue == "" {
			continue
		}
		for _, why := range bus.Reasons {
			m.DeadLetters(s.Queue, string(why)) // at 0
		}
	}
	return t
}

// kind is the subject's token behind the prefix, empty for a subject of others.
func (t *Traffic) kind(subject string) string {
	rest, ours := strings.CutPrefix(subject, t.prefix)
	if !ours {
		return ""
	}
	kind, _, _ := strings.Cut(rest, ".")
	return kind
}

// Published counts a message that was sent.
func (t *Traffic) Published(subject string, bytes int) {
	if out, ok := t.out[t.kind(subject)]; ok {
		out.Add(bytes)
	}
}

// Handled counts a message that was received.
func (t *Traffic) Handled(subject string, bytes int, outcome bus.Outcome) {
	if in, ok := t.in[t.kind(subject)]; ok {
		in.Add(bytes)
	}
	switch outcome {
	case bus.Late:
		t.metrics.Late(t.stageOf(t.kind(subject))).Inc()
	case bus.Poisoned:
		t.metrics.Poisoned.Inc()
	}
}

// stageOf is who received a message: of what is no tensor, the kind itself.
func (t *Traffic) stageOf(kind string) string {
	if stage, ok := t.receivers[kind]; ok {
		return stage
	}
	return kind
}

// Refused counts a message that came where it may not.
func (t *Traffic) Refused(string) { t.metrics.Refused.Inc() }

// Panicked counts a handler's panic.
func (t *Traffic) Panicked(string) { t.metrics.Panics.Inc() }

// Buried counts a message that was given up, whether it was kept or too many were.
func (t *Traffic) Buried(subject string, why bus.Reason) {
	t.metrics.DeadLetters(t.kind(subject), string(why)).Inc()
}

// Linked counts a connection by what has become of it.
func (t *Traffic) Linked(before, now bus.Link) {
	t.count(before, -1)
	t.count(now, 1)
	if before == bus.Away && now == bus.Connected {
		t.metrics.Links.Reconnected()
	}
}

func (t *Traffic) count(link bus.Link, change int) {
	switch link {
	case bus.Opening, bus.Away:
		t.metrics.Links.Away(change)
	case bus.Connected:
		t.metrics.Links.Connected(change)
	}
}

// Redelivered counts a message that came again.
func (t *Traffic) Redelivered(subject string, _ int) {
	t.redelivered.Add(1)
	if kind := t.kind(subject); kind != "" {
		t.metrics.Redeliveries(kind).Inc()
	}
}

// Redeliveries is how many messages came again.
func (t *Traffic) Redeliveries() uint64 {
	if t == nil {
		return 0
	}
	return t.redelivered.Load()
}

const (
	// gatherFor lets the microbatches of a few milliseconds travel together.
	gatherFor = 10 * time.Millisecond
	// maxGathered bounds a layer's microbatches that wait to be told.
	maxGathered = 64
)

// LoadOutbox gathers what a gate counts or a predictor expects of microbatches, and
// tells it by one sample a layer each few milliseconds. A nil one tells nobody. It is
// safe for concurrent use.
type LoadOutbox struct {
	sink    LoadSink
	model   uint64
	replica string
	source  pb.LoadSource
	note    chan struct{} // something waits to be told

	mu     sync.Mutex
	layers [][]*pb.StepLoad // that wait to be told
	since  time.Time        // when the first of them came
}

// NewLoadOutbox is a replica's; nil where nobody wants samples.
func (d *Deployment) NewLoadOutbox(replica string, source pb.LoadSource) *LoadOutbox {
	if d.Loads == nil {
		return nil
	}
	return &LoadOutbox{
		sink: d.Loads, model: d.Identity.Model, replica: replica, source: source,
		note: make(chan struct{}, 1), layers: make([][]*pb.StepLoad, len(d.Model.Spec.Layer)),
	}
}

// Put takes what is to be told of a layer's microbatch.
func (o *LoadOutbox) Put(layer int, step *pb.StepLoad) {
	if o == nil {
		return
	}
	o.mu.Lock()
	if o.since.IsZero() {
		o.since = time.Now()
	}
	o.layers[layer] = append(o.layers[layer], step)
	full := len(o.layers[layer]) == maxGathered
	o.mu.Unlock()
	if full {
		o.Flush()
	}
	pause.Wake(o.note)
}

// Run tells what was put in until ctx ends, and then what is left.
func (o *LoadOutbox) Run(ctx context.Context) {
	if o == nil {
		return
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-o.note:
			_ = pause.For(ctx, gatherFor) // ended: the loop finds that out
			o.Flush()
		}
	}
	o.Flush()
}

// Flush tells at once.
func (o *LoadOutbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	span := uint32(max(1, time.Since(o.since).Milliseconds()))
	o.since = time.Time{}
	for layer, steps := range o.layers {
		if len(steps) == 0 {
			continue
		}
		o.layers[layer] = nil
		o.sink.Send(&pb.LoadSample{
			Version: schemas.Version, Model: o.model, Host: o.replica, Layer: uint32(layer), SpanMs: span, Source: o.source, Steps: steps,
		})
	}
}

// settleFor is how long after the server was away stages are not judged: what replicas say of themselves then, and of
// each other, is of the outage, which is told itself.
const settleFor = 2 * members.TTL

// tellStages logs what goes missing on a token's way, and what is back, until ctx ends. Of
// all replicas one does so (members.Lacking).
func (p *Presence) tellStages(ctx context.Context, v *members.View) {
	watch := members.NewStageWatch(p.id, time.Now())
	tick := time.NewTicker(members.Interval)
	defer tick.Stop()
	gap, quiet := p.d.Conn.Gap(), time.Time{}
	for {
		changed := v.Changed() // before the Snapshot: what comes between wakes us
		if gap() {
			gap, quiet = p.d.Conn.Gap(), time.Now().Add(settleFor)
		}
		if v.Synced() && time.Now().After(quiet) {
			for _, e := range watch.Look(v.Snapshot(), time.Now()) {
				p.tellStage(e)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

func (p *Presence) tellStage(e members.StageEvent) {
	switch {
	case p.draining.Load() || p.d.Ending != nil && p.d.Ending():
	case e.Back && e.Missing == "" && e.Yet:
		p.d.Logger.Info("SERVING: no stage is missing on the way of the model's tokens", "stage", e.Stage, "away", e.Away.Round(time.Millisecond))
	case e.Back && e.Missing == "":
		p.d.Logger.Warn("SERVING again: no stage is missing on the way of the model's tokens", "stage", e.Stage, "away", e.Away.Round(time.Millisecond))
	case e.Back:
		p.d.Logger.Warn("a stage is back on the way of the model's tokens", "stage", e.Stage, "away", e.Away.Round(time.Millisecond), "missing", e.Missing)
	case e.Yet:
		p.d.Logger.Info("not serving yet: a stage is missing on the way of the model's tokens", "stage", e.Stage, "why", e.Why)
	default:
		p.d.Logger.Warn("NOT SERVING: a stage is missing on the way of the model's tokens", "stage", e.Stage, "why", e.Why)
	}
}
