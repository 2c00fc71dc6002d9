// Package bits tests that whole pipelines give the bits of direct calls (pkg/compute/direct):
// whatever the model, the wire, the hops, the hosts, the device, and the memory.
package bits
