// Package feedback judges changes of a layer's plan by the times that came of them.
//
//	times of layers ─Observe─▶ curves: what a layer takes, by the rows of a step
//	                              │ Begin: the curves that a change is compared with
//	                              ▼
//	        trial: times since then, each against the curve at as many rows ─Judge─▶ Outcome
//
// A step with more rows takes longer, so a time is compared with those of about as many rows
// before the change. A machine that is busy with something else makes all layers slower, so
// what the layers took that did not change is subtracted. What remains has an error, which is
// the scatter of the samples; an outcome that the error could explain is none.
//
// Changes are trials, and trials are few: one of eight layers at a time at first, twice as
// many after each that helped, half as many after each that did not. A layer whose change did
// not help is left alone for two minutes, and for twice as long each time.
//
// Where what is reckoned explains what a layer takes, what is expected of a change can be
// trusted. Then it counts beside what is measured, each as far as it is sure (the posterior of
// two normal distributions), and all layers may be tried at once, also those whose trials failed when
// steps had half or twice as many rows. The measured effect is then less sure than its scatter
// says, because layers that did not change gain as well. How much of what was expected has come of
// earlier trials says for how long it is trusted (credit).
//
// It is pure: seconds are the caller's.
package feedback
