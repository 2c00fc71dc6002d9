// Package offload simulates hosts that hold fewer experts than they serve: what a step takes
// when experts come over each host's link, under policies that say which to fetch ahead and
// which to give up (fMoE, arXiv:2502.05370, and what it is compared with).
//
// A run is steps one after the other: a prefill of a batch's prompts, then a decode step for
// each token. A step passes through the layers. In each, attention computes; then the gate says
// which experts have rows, and each host gets a dispatch for those that are its own. It computes them
// in one call when all are there, or in several where its memory does not take all; the layer ends when
// the last host is done. What a host holds, loads and evicts is decided by the machine that hosts run
// (pkg/policy/residency), in the policy's order. As hosts do, each knows of a step what dispatches and
// hints tell it.
//
// An expert is a hit if its weights are complete when the dispatch comes, late if they are on their
// way, else a miss: once per step, layer and expert, prefill and decode apart.
//
// What is predicted does not depend on time: Foresee finds it once for many runs. A prediction
// made at a layer's gate reaches the hosts after the predictor's delay; what is for layers that
// the step has reached by then is dropped. A synchronous policy's step waits for its prediction,
// and for all that it fetches, before the layer's experts compute.
//
// No policy gets what it could not know: predictors see rows up to the layer that they predict
// at. The oracle and Belady's order do, and are there as limits.
package offload
