// Package serving computes the dispatches that come to a host, from the message to the partial
// that it sends: it waits for the function (residency), has the rows computed (compute), counts
// them, and sends the partial to the aggregator that the dispatch names.
//
//	a function's group ─┐
//	the host's own subject ─▶ Receive ─Rouse─▶ residency
//	                             ├──Compute─▶ compute
//	                             └──partial─▶ aggregator
//
// Rows that no host can compute are refused, and rows that this host cannot compute are
// declined, both to their owner (byname.go). A message whose Receive returns an error comes
// again.
//
// A Serving has no lock: dispatches compute side by side.
package serving
