// Package renewal keeps what a replica has pulled its own: it renews the deliveries of its
// sequences from a goroutine of its own, as long as the engine gets on, and so does the
// worker that computes the sequence. A replica that hangs stops renewing and loses its
// sequences to another one.
//
//	queue ─keep─▶ Keeper ─in progress─▶ SEQUENCES
//	              ▲ Pulse of the engine, and of each Worker
//
// queue and engine use it; it imports none of attention's other rooms.
package renewal
