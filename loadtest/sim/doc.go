// Package sim replays traces of requests through the policies of the runtime on
// a simulated clock.
//
// A trace becomes a workload: iterations with the rows that each expert of each
// layer has (replay.go). It does not depend on the policy, so policies are
// compared on the same rows. Package requests gives the engine batches of requests
// in its place (Source). The engine runs an iteration's layers one after the other
// (engine.go): a layer begins with a decision about the layer that lies the
// prediction distance ahead, whose loads start at once and take a cold start and
// a transfer; the policy's rule divides its rows among the replicas that are ready
// (pkg/policy/divide); and it lasts
//
//	T = max over hosts of (wait + call + Σ accesses) + 2 · max over hosts of β·rows + messages
//
// in seconds. What an access takes is the profile's (pkg/policy/cost); messages are
// Settings.MessageSeconds each, none by default. MoEless, §3.3, has α·rows for an access
// and takes the first maximum over replicas. Replicas of one host share its processor,
// as §4.3 says and as the paced device has it, so their accesses add up here; the
// paper's maximum is kept beside it (Result.ByReplica).
//
// Policies decide by the times that layers take here. So what a wrong profile costs them
// shows with Settings.Believed alone, or on the pipeline.
package sim
