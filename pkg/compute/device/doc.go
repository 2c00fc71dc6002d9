// Package device is what holds routed experts and computes with them: a CPU, or
// a paced device (package paced), and CUDA devices through the same interface.
//
// # An expert's life
//
//	        Load             a place is free            loaded
//	cold ─────────▶ queued ─────────────────▶ loading ─────────▶ warm
//	 ▲  refused:      │ cancelled                │ cancelled,     │ evicted, when
//	 │  stays cold    │                          │ failed         │ no ticket holds it
//	 └────────────────┴──────────────────────────┴────────────────┘
//
// Load returns a Ticket, a counted reference. While the load is under way its
// tickets keep it going, and the last one that is released cancels it. When the
// expert is warm its tickets hold it: it is not evicted before all are released,
// and from then on it stays warm until its memory is needed or Evict is called.
// So a holder of a ticket never loses its expert to a holder that has released its own.
// Which load is next and what is evicted for it, package residency decides, in the
// order of a policy (Settings.Order).
//
// # Memory
//
// Bytes are those of the weights as the device stores them (Size). A load
// reserves them before anything is allocated and evicts for them what no ticket
// holds; what does not fit even then is refused with RefusedError, which has
// both numbers. Used, which includes what is reserved, never exceeds Budget.
// Where a processor's experts have a budget, some of the memory that they leave is kept
// for later ones, within what was in use at most.
// What a load needs beside, such as staging buffers, is bounded by the number
// of loads at a time and not counted.
//
// # Errors
//
// Each load ends in one of four ways: warm (nil), *RefusedError, *FailedError
// with the loader's error, or ErrCancelled. Evict of an expert in use is
// *HeldError. Compute with an expert that is not warm is forward.ErrNotWarm.
//
// # Other devices
//
// Store is all of the above for any kind of weights; a device brings a Loader
// and a Compute. What they have to keep:
//
//   - A paced device loads and computes as the CPU does: its Loader returns when
//     the profile's transfer would be over, and lets others pass between the
//     transfer's pieces (Piecewise); its Size is the profile's, and its
//     Compute returns the CPU's result when the profile's device would have it.
//   - A CUDA device's Loader copies from pinned host memory on a copy stream and
//     returns at the copy's event; loads at a time are its copy streams. Compute
//     launches on a stream of its own for each caller, waits for the event behind
//     the last kernel, and returns with out filled: its callers overlap, each sees
//     a plain call. Borrow keeps an expert's memory until the event, so eviction
//     never frees what a kernel reads. A failed allocation is ErrOutOfMemory.
//
// Shapes are those of package forward.
package device
