// Package meter sums up what units in one tier of a host's memory come to: gigabytes times
// the seconds that a unit had them. A host tells it of its residency's events on its own
// clock, and the simulator on the simulated one; it has no clock and no I/O.
//
//	      Take           Hold          Begin            Drop
//	gone ──────▶ loading ─────▶ kept ◀──────▶ serving ──────▶ gone
//	                                   End
//
// Times are seconds since the meter began. A time before a unit's last one counts as that.
//
// # A request's share
//
// Memory costs whether rows use it or not, so a rule says which request pays. Each unit's time in
// memory is cut into pieces, and each piece has one payer:
//
//   - While accesses use a unit, each instant is divided evenly among them.
//   - A unit that waits, kept or loading, waits for its next access. That one takes the wait,
//     but none of it that is older than Span before its rows came: rows that waited for a
//     load take all of it.
//   - The rest is idle, and no request pays it: what was kept for longer, loaded and never used.
//
// An access divides what it took evenly among its rows, of which a request has some. So the
// shares of all accesses and what was idle are together all that units had. Rows that are
// computed twice, because their first answer was lost, are taken twice: what no answer
// brought back is in a host's Taken, and in no request's share.
package meter

// Span is how many seconds before its rows came a unit's memory is theirs. One that has
// rows in every second is never idle.
const Span = 1.0
