// Package sim replays traces of requests through the policies of the runtime on
// a simulated clock.
//
// A trace becomes a workload: iterations with the rows that each expert of each
// layer has (replay.go). It does not depend on the policy, so policies are
// compared on the same rows. The engine runs its layers one after the other
// (engine.go): a layer begins with a decision about the layer that lies the
// prediction distance ahead, whose loads start at once and take a cold start and
// a transfer; its rows are split evenly over the replicas that are ready; and it
// lasts as MoEless, §3.3, says:
//
//	T = max over hosts of (wait + α·rows) + 2 · max over hosts of β·rows
//
// The paper takes the first maximum over replicas. Replicas of one host share its
// processor, as §4.3 says and as the paced device has it, so their rows add up
// here; the paper's own figure is kept beside it (Result.ByReplica).
package sim
