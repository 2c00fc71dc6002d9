// Package engine owns the steps: which sequences step together, on which worker, and with
// whose pages of keys and values. It batches rows continuously, computes everything of a
// layer but its routed experts, chooses tokens, and writes them to the sequences' logs.
//
//	queue ─Admit─▶ Engine ─microbatch─▶ worker ─Begin, Start─▶ Remote (layer)
//	                 ▲ └─records─▶ log   │
//	                 └─────settle────────┘
//
// Engine is one goroutine that drives a scheduler. The scheduler decides and does no I/O:
// it is handed time and results, and testdata replays it.
//
// engine asks layer for sums, and renewal for who computes what; of the queue it knows
// nothing. What others may know of it at any time is in its Line.
package engine
