// Package cuda is a device that holds experts, gates, or a backbone, in a GPU's memory and
// computes with them there, through whatever driver it is given.
//
// # Memory
//
// One arena of Settings.Memory bytes is allocated when the device opens, and
// nothing later. It has the buffers of the lanes, and slots for experts, all of
// the size of the model's largest. An expert's bytes are its slot's.
//
//	arena: │ lane │ lane │ … │ numbers of random weights │ slot │ slot │ slot │ …
//	slot:  │ in (2F, Dp) │ down (D, Fp) │ biases │
//
// Quantised weights stay as they are, with their scales behind each matrix (format).
//
// # Loading
//
// A load has a stream and two pinned buffers. While one is copied to the device
// the other is filled from the checkpoint, so an expert goes over in as few
// copies as its bytes allow. Between buffers it looks whether it was cancelled.
// The slot is free again when the device has passed the last copy, not before.
// Random weights are not copied: a launch makes each matrix of them (random.go).
//
// # Computing
//
// A call of Compute takes a lane: a stream, pinned buffers for rows and tables,
// and memory on the device. Rows and tables go over in one copy, three launches
// compute all experts of the call, and the results come back in one copy; the
// caller sleeps until the event behind it. Calls on different lanes overlap.
// Experts are borrowed until that event, so that none is evicted under a kernel.
// A call of Sums has a fourth launch, and the sum of each row comes back. A call that is
// more than a lane has room for goes in several pieces.
//
// # Faults
//
// A launch that the device refuses fails its call alone. What ends the context
// (cuda.ErrLost), and a device that does not answer for Settings.Patience, fail
// every call from then on, and Failed tells the host.
//
// # Attention
//
// A Backbone is a device of its own, with another arena, for an attention replica: the
// weights of all layers, lanes that a step each goes through, and pages for keys and
// values. forward.Step drives it layer by layer; a step's errors are
// *forward.DeviceError. What a lane launches between two waits for the host is a graph, from the
// second step on that has the same shape (graphs.go).
//
// # Gates
//
// Gates are the same for a gate: as much of the GPU's memory as weights and buffers of rows
// need. A call is one copy of rows, two launches, and one copy of what was chosen. The sums
// are those of kernels/cpu, without tensor cores, so that experts and weights are the
// CPU's, bit for bit.
//
// Its tests run on kernels/cuda/fake, TestReal… on a GPU where there is one.
package cuda
