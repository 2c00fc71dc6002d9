package telemetry

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
)

// Table is gauges with several labels, or none, of something that is kept elsewhere,
// read as a Mirror's are. Where several replicas of a process tell of one thing, the
// largest value is shown: they look at the same.
type Table struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	last  int
	reads map[int]func() []Reading
}

// Reading is one gauge: its value, and those of the labels in their order.
type Reading struct {
	Labels []string
	Value  float64
}

// Up reads whether something works, 1 or 0, by one label, as far as that is known.
func Up(label string, up func() (is, known bool)) func() []Reading {
	return func() []Reading {
		is, known := up()
		if !known {
			return nil
		}
		return []Reading{{[]string{label}, flag(is)}}
	}
}

func newTable(name, help string, labels ...string) *Table {
	return &Table{
		desc:  prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil),
		reads: map[int]func() []Reading{},
	}
}

// Follow shows what read returns until stop is called.
func (t *Table) Follow(read func() []Reading) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	id := t.last
	t.reads[id] = read
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.reads, id)
	}
}

// Describe is for the registry.
func (t *Table) Describe(out chan<- *prometheus.Desc) { out <- t.desc }

// Collect is for the registry.
func (t *Table) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	reads := slices.Collect(maps.Values(t.reads))
	t.mu.Unlock()
	most := map[string]Reading{}
	for _, read := range reads {
		for _, r := range read() {
			key := strings.Join(r.Labels, "\x00")
			if there, ok := most[key]; !ok || r.Value > there.Value {
				most[key] = r
			}
		}
	}
	for _, r := range most {
		out <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, r.Value, r.Labels...)
	}
}

// Links are this process's connections to NATS.
type Links struct {
	// connections are counted by whether they have a server or look for one, and
	// reconnects counts those that came back.
	connections *Table
	connected   atomic.Int64
	away        atomic.Int64
	reconnects  prometheus.Counter
}

func newLinks() *Links {
	l := &Links{
		connections: newTable("nats_connections", "Connections of this process to NATS, by state: connected, or away (it looks for a server).", "state"),
		reconnects:  counter("nats_reconnects_total", "Times that a connection to NATS was lost and came back."),
	}
	l.connections.Follow(func() []Reading {
		return []Reading{{[]string{"connected"}, float64(l.connected.Load())}, {[]string{"away"}, float64(l.away.Load())}}
	})
	return l
}

// Connected adds to the connections that have a server.
func (l *Links) Connected(change int) { l.connected.Add(int64(change)) }

// Away adds to the connections that look for one.
func (l *Links) Away(change int) { l.away.Add(int64(change)) }

// Reconnected counts a connection that came back.
func (l *Links) Reconnected() { l.reconnects.Inc() }

// Mirror is gauges of something that is kept elsewhere. They are read when they
// are asked for, so that they are as true as what they show; who does not know
// tells nothing, and no gauge is there then.
type Mirror struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	thin bool // it is left out

	mu    sync.Mutex
	last  int
	reads map[int]func() map[string]float64
}

// newMirror declares gauges with one label.
func newMirror(name, help, label string) *Mirror {
	return mirrorOf(prometheus.GaugeValue, nil, name, help, label)
}

// newCounterMirror declares counters of one tier of memory. One begins anew with its host.
func newCounterMirror(tier prometheus.Labels, name, help, label string) *Mirror {
	return mirrorOf(prometheus.CounterValue, tier, name, help, label)
}

func mirrorOf(kind prometheus.ValueType, always prometheus.Labels, name, help, label string) *Mirror {
	return &Mirror{
		desc: prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, []string{label}, always), kind: kind,
		reads: map[int]func() map[string]float64{},
	}
}

// Follow shows what read returns, values by the label's value, until stop is
// called. Of several, for replicas in one process, the sums are shown.
func (m *Mirror) Follow(read func() map[string]float64) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	id := m.last
	m.reads[id] = read
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.reads, id)
	}
}

// Describe is for the registry.
func (m *Mirror) Describe(out chan<- *prometheus.Desc) { out <- m.desc }

// Collect is for the registry.
func (m *Mirror) Collect(out chan<- prometheus.Metric) {
	if m.thin {
		return
	}
	m.mu.Lock()
	reads := slices.Collect(maps.Values(m.reads))
	m.mu.Unlock()
	sums := map[string]float64{}
	for _, read := range reads {
		for value, v := range read() {
			sums[value] += v
		}
	}
	for value, v := range sums {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, value)
	}
}

// LogLibraries has what libraries say on stderr by themselves come through log: those that
// use Go's own logs, such as net/http, and OpenTelemetry. It is of the whole process, and
// called once.
func LogLibraries(log *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(log) // takes the package log over, too
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "error", err) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
}
