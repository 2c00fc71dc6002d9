// Package residency says which units one tier of a host's memory holds, which it
// fetches next, and which it gives up for them. It is a state machine without a clock
// and without I/O: a host, or the simulator, tells it what has happened, and does what
// it answers.
//
//	       Want          room, and a lane     Loaded
//	cold ────────▶ queued ────────────▶ loading ────────▶ held ──────▶ evicting
//	 ▲ refused       │ ▲ a more urgent want │ Failed,       ▲    Evict     │
//	 │               │ └──── at a piece's ──┤ Stopped       │              │
//	 └───────────────┴──────── end ─────────┘               └──── InUse ───┤
//	 ▲                                                                     │
//	 └───────────────────────────────── Evicted ───────────────────────────┘
//
// A want is a reference. A caller that waits for a unit has it from the action Ready on,
// and gives it back with Release. A unit that has references is not evicted.
// The last reference that is given back cancels a load; a held unit stays until its
// bytes are needed.
//
// # Urgency
//
// Rows wait for what is Demanded, a plan wants what is Planned, a prediction names what
// is Hinted. While a more urgent load waits or runs, no other one begins, and one that
// runs stands still from the end of its piece (Piece): so a miss waits for a prefetch
// no longer than for one piece. A unit that is wanted again more urgently goes on as
// that. Within an urgency the Order says what is fetched first; a load that has begun
// goes before those that have not.
//
// # Memory
//
// What is Demanded or Planned takes its bytes when it is wanted, or is refused: rows
// for it can go to another host. A hint takes them when its load begins, so that a queue of
// hints evicts nothing before its time. Used bytes, of held units and of those that are
// evicted or have their bytes before a load, never exceed the budget.
//
// Which units are evicted is the Order's choice, among those that Yields to the one
// that is wanted. If all of them do not suffice, none is. The host may find a unit in
// use and say so (InUse): another one goes in its place.
//
// # Orders
//
//	LRU       what was used longest ago goes
//	LFU       what was used least often, evictions notwithstanding (MoE-Infinity)
//	FMoE      the largest 1/(p·freq) goes, the largest p/(l - l_now) comes (arXiv:2502.05370)
//	NextUse   what is held longest for a use, as expected, goes; a prefetch comes if it is held for less
//	Belady    what is used last goes, which it knows: no order loads less
//
// All but the first and the last go by an Outlook, which is told where steps are, what their
// gates say and what they use.
//
// # Tiers
//
// A Machine is one tier, and the link that fills it. Where one tier is filled from
// another, the upper one's load holds a reference in the lower one for as long as it
// runs.
package residency
