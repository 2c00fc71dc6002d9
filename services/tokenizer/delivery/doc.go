// Package delivery makes chunks of the token log and brings them to their readers: to a
// request's own producer, from the shards whose leases this replica holds, and to each
// further reader that asks for a replay. It ends what is cancelled, late, or left by
// tokenizers of another kind, and packs the logs that it has delivered to their ends.
//
// Chunks are a function of the log alone (answer.go), so every reader of a log makes the
// same ones: the owner of its shard, a replay, or the owner after it.
//
//	token log ─▶ Shards ──▶ Sender ─▶ reply subject
//	     └─────▶ Replays ─────┘
//
// Sender is the one place that publishes to a subject that came from outside. intake asks
// delivery to tell producers of refusals; delivery tells admission what the log says.
//
//	intake ─▶ delivery ─▶ admission ─▶ probe
package delivery
