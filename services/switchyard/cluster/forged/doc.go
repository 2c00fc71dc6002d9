// Package forged tests that pipelines serve on while somebody with more rights than anybody
// should have writes to their plans, members, logs and queues, or deletes them.
package forged
