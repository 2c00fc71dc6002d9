// Package queue has the sequences that are to begin on a replica: it pulls them, lets them
// wait in fair order, claims their logs when it is their turn, and hands them to the engine.
// Each sequence that it does not hand over it settles: it gives it back to a sibling, lets it
// come again, or ends its log with an error.
//
//	SEQUENCES ─▶ puller ─▶ reception ─▶ waiting ─▶ turns ─claim─▶ token log
//	                          └── checks   │         └─Admit─▶ engine
//	SEQUENCES ◀──────── settler ◀──────────┘
//
// A replica pulls what it can begin, and what nobody can begin yet. Waiting has no I/O.
// queue asks the engine and renewal, and neither knows it; layer it does not know.
package queue
