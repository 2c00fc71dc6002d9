// Package brownout decides which experts of a layer compute the rows that a gate routed to
// them when there is too much to do, and how far that may go (BrownoutServe).
//
// An access of an expert costs much more than a further row of it. So Split keeps the experts
// with most rows (S1, algorithm 1), and hands the rows of the others (S2) to united experts,
// each of which stands in for a group of neighbours (Partial), or to none (Full). The threshold
// is the share of routed rows that S1 computes at least.
//
// What the paper prints otherwise, or leaves open, is decided here:
//
//   - The prefix that becomes S1 is the shortest whose rows reach the threshold; the test that
//     algorithm 1 prints is inverted.
//   - An expert without rows is in neither set. Else a group would never have a lone expert.
//   - A row keeps its gate weight. If two of its experts are in one group, their united expert
//     computes it once, with the sum of both weights, at the lower slot.
//   - Experts that are accessed anyway, for rows that must not be degraded or for the other
//     phase, serve all their rows, and count first.
//   - By loss, S2 is chosen so that it saves as many accesses as algorithm 1's, at the least
//     expected error (Σg² times the error of the distillation).
//
// Control is the paper's algorithm 2: a threshold by the latencies of late. Predictive looks
// ahead: it asks what the next steps will take at each threshold, and takes the largest that
// keeps the objective.
//
// Thresholds are whole millionths, so that every replica cuts at the same row. The package has
// no clock: times are seconds that the caller passes.
package brownout
