// Package liveness tells which replicas have no connection to NATS any more. Each
// listens to a subject of its own, and a server says at once that a message has no
// listener. So a process that was killed is missed in a third of a second,
// where its silence means anything only after more than one. One that hangs is not
// missed: its connection is open.
//
// What follows may be wrong, as of a replica that is about to reconnect: it may lead to work
// that is done twice, and to nothing else.
package liveness
