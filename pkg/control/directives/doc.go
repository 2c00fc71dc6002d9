// Package directives decides how far a brownout goes, and tells it to those who step.
//
//	attention ──Latencies──▶ controller ──Directive──▶ bucket `brownout` ──▶ attention ──Stamp──▶ gates
//	                            ▲   operator's settings ──┘
//
// Attention replicas measure steps (Meter) and tell their times on core NATS. One controller,
// which has the lease `brownout`, judges them by pkg/policy/brownout and writes a directive when
// something changes: versioned, with its reason, under its lease's epoch and by the key's
// revision. An operator's settings are a key of the same bucket, which the controller follows.
//
// Attention follows the bucket (Obeyed) and stamps what it says on each step. While the
// controller's lease is not renewed, thresholds stay for the lease's time, and then rise as
// they would if there were nothing to do: a brownout does not outlive who can end it.
//
// What cannot be (absurd times, forged or stale directives, messages of others) is not
// believed, and counted. The next write of the controller replaces it.
package directives
