// Package schedule says what goes wrong, and when: a list of faults that follows
// from a seed, can be written to a file, read back, and made shorter. Package chaos
// runs it.
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
	// Leader kills the NATS server that leads the token log by then, and starts it
	// again after the fault's time.
	Leader Kind = "leader"
	// Disk leaves a NATS server no room on its disk; it starts again with room after
	// the fault's time.
	Disk Kind = "disk"
	// Memory lets a process have no more memory than it has. One that ends of it is
	// replaced after the fault's time.
	Memory Kind = "memory"
	// Skew puts a process's clock wrong by minutes, and right again.
	Skew Kind = "skew"
)

// Kinds are all of them.
var Kinds = []Kind{Kill, Hang, Drain, Storm, Vanish, Latency, Bandwidth, Reset, Partition, Leader, Disk, Memory, Skew}

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

// Has reports whether there is a fault of a kind.
func (s Schedule) Has(k Kind) bool {
	return slices.ContainsFunc(s, func(f Fault) bool { return f.Kind == k })
}

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

// Close is the same with no longer pauses between two beginnings than gap, also
// before the first: a fault at once would hit nothing that is under way.
func (s Schedule) Close(gap time.Duration) Schedule {
	out := slices.Clone(s)
	var last, at time.Duration
	for i, f := range s {
		at += min(f.At-last, gap)
		last, out[i].At = f.At, at
	}
	return out
}

// namesNone reports whether a kind is of no certain replica: of all, or of one that is
// found when it is done.
func (k Kind) namesNone() bool { return k == Storm || k == Leader }

// hits reports whether a kind of fault can hit a target.
func (k Kind) hits(t Target) bool {
	if k.namesNone() != (t.Replica == All) {
		return false
	}
	switch t.Service {
	case Any:
		return k == Storm
	case Server:
		return k == Kill || k == Hang || k == Drain || k == Leader || k == Disk
	}
	return k != Leader && k != Disk && slices.Contains(Services, t.Service)
}
