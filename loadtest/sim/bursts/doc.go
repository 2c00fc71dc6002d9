// Package bursts simulates one engine under requests that come faster than it can serve them,
// with brownouts (pkg/policy/brownout) and what else could be done.
//
// A step has a row of each sequence that decodes, and the prompts of requests that got a seat,
// first come first served: BrownoutServe's engine. What a step takes is a fixed part, a part for
// each row, and the accesses of experts, layer by layer: in a separate engine each access has an
// overhead that is large beside reading the weights, in a fused one a layer's accesses share one
// call. Fewer accesses save what they take, and nothing else.
//
// A row's experts are those of a tape (loadtest/sim/requests): the same under every policy. Two slots
// of a row in one group are counted as two rows of a united expert, which is a little too many.
package bursts
