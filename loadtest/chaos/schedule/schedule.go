// Package schedule says what goes wrong, and when: a list of faults that follows
// from a seed, can be written to a file, read back, and made shorter. Who runs it
// is another matter.
package schedule

import (
	"slices"
	"time"
)

// Kind is what goes wrong.
type Kind string

// The kinds. A fault of a connection is one of that between a replica and the
// NATS servers.
const (
	// Kill is kill -9; another process takes its place after the fault's time.
	Kill Kind = "kill"
	// Hang suspends a process and wakes it after the fault's time.
	Hang Kind = "hang"
	// Drain is SIGTERM; another process takes its place when it has ended.
	Drain Kind = "drain"
	// Storm kills all replicas of a service, or of all services, at once, and
	// starts others after the fault's time.
	Storm Kind = "storm"
	// Vanish is a kill of which the servers learn only after the fault's time,
	// as when a machine loses its power: its connections stay open until then.
	Vanish Kind = "vanish"
	// Latency delays what passes a connection.
	Latency Kind = "latency"
	// Bandwidth lets little pass at a time.
	Bandwidth Kind = "bandwidth"
	// Reset closes a connection, and each that follows within the fault's time.
	Reset Kind = "reset"
	// Partition drops all that passes; the connection seems open and is closed at the end.
	Partition Kind = "partition"
)

// Kinds are all of them.
var Kinds = []Kind{Kill, Hang, Drain, Storm, Vanish, Latency, Bandwidth, Reset, Partition}

// Server is the name of the NATS servers among the services.
const Server = "nats"

// Services are those whose replicas can fail.
var Services = []string{"aggregator", "expert", "gate", "attention", "tokenizer"}

// Any stands for all services, and All for all replicas.
const (
	Any = "*"
	All = -1
)

// Target is who is hit: a replica by its place, from 0.
type Target struct {
	Service string
	Replica int
}

// Fault is something that goes wrong.
type Fault struct {
	// At is when it begins, from the beginning of the schedule, and For how long it takes.
	At, For time.Duration
	Kind    Kind
	Target  Target
}

// End is when it is over.
func (f Fault) End() time.Duration { return f.At + f.For }

// Schedule is what goes wrong, in the order of beginning.
type Schedule []Fault

// Length is when all of it is over.
func (s Schedule) Length() (end time.Duration) {
	for _, f := range s {
		end = max(end, f.End())
	}
	return end
}

// Until is what of it begins before a moment.
func (s Schedule) Until(at time.Duration) Schedule {
	n := slices.IndexFunc(s, func(f Fault) bool { return f.At >= at })
	if n < 0 {
		return s
	}
	return s[:n]
}

// Close is the same with no longer pauses between two beginnings than gap, and
// none before the first.
func (s Schedule) Close(gap time.Duration) Schedule {
	out := slices.Clone(s)
	var last, at time.Duration
	for i, f := range s {
		if at += min(f.At-last, gap); i == 0 {
			at = 0
		}
		last, out[i].At = f.At, at
	}
	return out
}

// hits says whether a kind of fault can hit a target.
func (k Kind) hits(t Target) bool {
	switch {
	case t.Service == Any:
		return k == Storm && t.Replica == All
	case t.Service == Server:
		return (k == Kill || k == Hang || k == Drain) && t.Replica >= 0
	case !slices.Contains(Services, t.Service):
		return false
	case k == Storm:
		return t.Replica == All
	}
	return t.Replica >= 0
}
