// Package admission decides whether a request may wait: it counts what waits for
// attention, what tenants have had of their quotas, and what the token log must still
// take of the requests that were accepted, and refuses what would be too much. A
// refusal says when to come again, and holds a place for that time
// (pkg/policy/admission has the promises, which are pure).
//
// intake asks it about each prompt. delivery tells it what the token log says of the
// requests in the shards of this replica: which wait, which have their turn, how much was
// written. It asks probe how full the streams are and how many wait.
//
//	intake ─▶ delivery ─▶ admission ─▶ probe
package admission
