// Package expert is a host: it loads the experts that the plan gives it, joins
// one consumer group a function, computes routed rows, and sends the partials
// to the group's aggregator. It also runs a planner (pkg/control/planner), of
// which the one with the lease keeps the plan.
package expert
