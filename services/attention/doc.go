// Package attention owns the steps: one Service is a replica. It takes sequences, batches
// their rows continuously, runs everything of a layer but its routed experts, has those
// computed by messages, and writes the tokens to the log. The Service loads the weights,
// and wires four rooms, each of which is a package of its own:
//
//	queue    pulls sequences, lets them wait in fair order, and claims their logs
//	engine   steps them: microbatches, workers, pages of keys and values, records
//	layer    sends a layer's rows to the gates, and takes their sums in
//	renewal  renews the deliveries of sequences while the engine gets on
//
// A room asks only those after it, which internal/imports holds:
//
//	SEQUENCES ─▶ queue ─▶ engine ─▶ layer ─▶ gates
//	               └────────┴──▶ renewal
//
// The few words that go the other way come as functions that Start fills in.
package attention
