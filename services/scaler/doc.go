// Package scaler plans by load: it reads load samples from Kafka, decides by
// pkg/policy/elastic how many replicas each expert has and where, and writes the
// plan. There may be many scalers: the one with the planner's lease plans and reads
// samples, the others stand by, and hosts leave the lease to scalers while one is
// ready.
//
//	standby ──lease is ours──▶ active: joins the Kafka group, begins from the plan in force
//	   ▲                          │
//	   └──lease lost or given up──┘ leaves the group
package scaler
