// Package invoked has dispatches run as invocations of a serverless platform's functions
// (pkg/policy/cost/scatter): each starts, gets its parameters, fetches, computes and stores in the
// platform's time, or in its own where that is longer, and is billed its memory from its message to
// the end of its last upload.
//
//	message ─▶ starts ─▶ fetch ─▶ compute ─▶ store ─▶ billed
//	                     fetch ─▶ compute ─▶ store       of each minibatch, each beside the others
package invoked
