package deployment

import (
	"strings"
	"sync/atomic"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
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
