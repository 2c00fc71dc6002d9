// Package expert is a host: it loads the experts that the plan gives it, joins
// one consumer group a function, computes routed rows, and sends the partials
// to the group's aggregator. Whichever host holds the planner's lease also
// keeps the plan.
package expert
