package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

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
