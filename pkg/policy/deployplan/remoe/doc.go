// Package remoe plans a request for experts that are rented as functions: which of a model's
// experts stay beside the main model and which leave, with how much memory, and how often
// (Remoe, section IV). What a plan takes and costs is pkg/policy/cost/serverless's; what a
// request will ask is foretold by pkg/policy/predict/sps.
//
//	request ─Preallocate─▶ b, w ─select─▶ x ─memory─▶ y ─replicas─▶ z
//	          (algorithm 2)     (activation)   (dual of P2)  (LPT, eq. 15)
//
// Preallocate comes before the tokenizer has counted tokens, so that the main model can start at
// once: it lowers the share b of remote experts until the SLO holds in the worst case. Where it
// never does, Decide refuses the request with the limit that is in the way and with the TTFT and
// TPOT that could be kept.
//
// Exact tries every plan of a small instance, Best those that send as many experts of each layer
// away, with known routing; the baselines CPU, GPU, Fetch and Mix are bills without a plan.
// docs/remoe.md says where the paper is silent or printed wrongly, and what is done instead.
package remoe
