// Package expert is a host: it loads the experts that the plan gives it, joins one consumer
// group a function, computes routed rows, and sends the partials to the group's aggregator. It
// wires rooms, each of which is a package of its own, and starts and stops them:
//
//	residency  which functions are wanted here, loading, warm or retired, and make room for others
//	compute    rows in, weighted rows or their sums out, on the host's device
//	serving    a dispatch from its message to its partial
//	report     what the host says of itself: to the members, in metrics, in samples of loads
//	handover   how the host leaves
//	hints      what predictors tell the host
//	invoked    the times and bills of rented functions, where a plan for batches has any
//
// A room asks only those that an arrow leads to, which internal/imports holds; report and
// handover ask by interfaces of their own:
//
//	serving ─▶ residency, compute, invoked      report ─▶ residency, compute      handover ─▶ residency
//
// The host also runs a planner (pkg/control/planner), of which the one with the lease keeps the
// plan.
package expert
