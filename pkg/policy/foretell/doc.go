// Package foretell says how probable it is that a row uses an expert some layers ahead, by all
// that is known of it: what the map says that was found for it (pkg/policy/expertmap), what the
// later layer's gate makes of the row as it is, what the sequence's row before did, what rows of
// its token ask for, and how often the expert is used at all, and by the last rows.
//
// A logistic regression weighs these, for each distance and kind of row apart (Head). It learns
// while rows are served: what says nothing comes to count for nothing, and then all experts have
// about their rates. Chances are calibrated: of experts that are said to be used with 0.3, three
// of ten are. So a host can compare them with how soon it needs what it holds.
//
// It is arithmetic without a clock and without I/O; the same calls give the same bits.
package foretell
