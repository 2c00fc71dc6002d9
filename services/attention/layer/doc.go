// Package layer is a model's layers with routed experts, as attention calls them: it sends
// the rows of a layer to the gates, takes in the blocks that aggregators send back, and
// sends again what is late or lost. Each worker of the engine has a Remote, which is the
// forward.MoE of its steps.
//
//	engine ─Begin, Start─▶ Remote ─rows─▶ gate ─▶ experts ─▶ aggregator
//	       ◀────Wait────── Remote ◀─────────── Exchange ◀───block───┘
//
// Peers knows which aggregators and gates there are, and which of them did not answer.
// When rows are late is decided by what layers have taken lately: latency.go has the bounds and
// pauses, and asks pkg/policy/patience; patience.go is the state of one wait.
//
// layer knows rows and steps, and nothing of sequences; it imports none of attention's
// other rooms.
package layer
