// Package loads is how much each expert computes: expert hosts count rows and
// say so about once a second, and readers add the hosts up.
// Samples travel on core NATS: one that is lost is not sent again, but the next
// of the same expert has its total, and hosts tell all totals when asked.
package loads
