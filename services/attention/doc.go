// Package attention owns the steps: it takes sequences, batches their rows
// continuously, runs everything of a layer but its routed experts, has those
// computed by messages, and writes the tokens to the log. The engine's goroutine
// drives a scheduler, which decides and does no I/O: testdata replays it.
//
//	SEQUENCES ─▶ admit ─claim─▶ engine ─microbatch─▶ worker ─hidden─▶ gate …
//	                              │                   ▲ └──────────── block
//	token log ◀──── writer ◀──────┘
package attention
