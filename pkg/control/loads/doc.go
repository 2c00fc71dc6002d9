// Package loads is how much each expert computes: expert hosts count rows and
// say so about once a second, and whoever wants to know adds the samples up.
// Samples travel on core NATS: one that is lost is not sent again.
package loads
