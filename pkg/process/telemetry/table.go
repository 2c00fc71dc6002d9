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
	followed[[]Reading]
}

// followed is what is kept elsewhere, by several at a time.
type followed[T any] struct {
	mu    sync.Mutex
	last  int
	reads map[int]func() T
}

// Follow shows what read returns until stop is called.
func (f *followed[T]) Follow(read func() T) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads == nil {
		f.reads = map[int]func() T{}
	}
	f.last++
	id := f.last
	f.reads[id] = read
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.reads, id)
	}
}

func (f *followed[T]) now() []func() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.reads))
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

func newTable(r prometheus.Registerer, name, help string, labels ...string) *Table {
	return declare(r, &Table{desc: prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)})
}

// Describe is for the registry.
func (t *Table) Describe(out chan<- *prometheus.Desc) { out <- t.desc }

// Collect is for the registry.
func (t *Table) Collect(out chan<- prometheus.Metric) {
	most := map[string]Reading{}
	for _, read := range t.now() {
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

func newLinks(r prometheus.Registerer) *Links {
	l := &Links{
		connections: newTable(r, "nats_connections", "Connections of this process to NATS, by state: connected, or away (it looks for a server).", "state"),
		reconnects:  counter(r, "nats_reconnects_total", "Times that a connection to NATS was lost and came back."),
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

// Mirror is gauges of something that is kept elsewhere, by the value of a label. They are
// read when they are asked for, so that they are as true as what they show; who does not
// know tells nothing, and no gauge is there then. Of several, for replicas in one process,
// the sums are shown.
type Mirror struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	thin bool // it is left out
	followed[map[string]float64]
}

func newMirror(r prometheus.Registerer, name, help, label string) *Mirror {
	return mirrorOf(r, prometheus.GaugeValue, nil, name, help, label)
}

// newCounterMirror declares counters of one tier of memory. One begins anew with its host.
func newCounterMirror(r prometheus.Registerer, tier prometheus.Labels, name, help, label string) *Mirror {
	return mirrorOf(r, prometheus.CounterValue, tier, name, help, label)
}

func mirrorOf(r prometheus.Registerer, kind prometheus.ValueType, always prometheus.Labels, name, help, label string) *Mirror {
	return declare(r, &Mirror{desc: prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, []string{label}, always), kind: kind})
}

// Describe is for the registry.
func (m *Mirror) Describe(out chan<- *prometheus.Desc) { out <- m.desc }

// Collect is for the registry.
func (m *Mirror) Collect(out chan<- prometheus.Metric) {
	if m.thin {
		return
	}
	sums := map[string]float64{}
	for _, read := range m.now() {
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
