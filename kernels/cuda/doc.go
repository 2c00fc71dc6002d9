// Package cuda is the host's side of CUDA devices: what of the CUDA driver the
// code above it needs (Driver), the errors that it knows, which image of the
// kernels fits a device, and the one allocation that everything on a device
// lies in (Arena).
//
// Two packages implement Driver. Package real, behind the build tag cuda, speaks
// to the driver of the machine. Package fake is plain Go: memory, streams that
// run behind their callers, events, kernels that are Go functions, and faults
// as asked for; tests use it, on machines without a GPU and with the race
// detector. The kernels are in src; its README.md is the list of their names
// and parameters.
package cuda
