// Package bus carries messages over NATS: connecting, creating streams, the
// tensor hops, the durable work queues, and asynchronous publishing.
//
//	        Send ─────────▶ core NATS        replies, cancellations, hints
//	Conn ── Store ────────▶ file streams     prompts, sequences (waits for the ack)
//	        StoreAsync ───▶ file streams     the token log (a callback gets the ack)
//	Hop ─── Send, Receive ▶ memory streams   tensors, in one of three modes
//	Queue ─ Pull ◀───────── file streams     work, acknowledged when it is done
//
// Everything goes on by itself after a reconnect, and after a restart of the
// server that lost the memory streams and their consumers.
package bus
