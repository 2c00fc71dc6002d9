// Package transfer moves the rows of dispatches to expert hosts and what hosts make of them to
// aggregators, in one of three modes that a plan chooses for each function:
//
//	direct     one message each way
//	indirect   one object each way; a message names it
//	pipelined  objects of some rows each: a host fetches and computes the next one while it
//	           stores what became of the last one
//
//	gate ──Scatter──▶ host ──Serve──▶ aggregator ──Gather
//	  └────▶ objects ───┘ └────▶ objects ──┘ └──Forget
//
// Each mode is a Transfer. A gate takes the plan's; hosts and aggregators take the one that a
// message shows (its parcel). A mode decides how bytes travel, and nothing else: the answers have
// the same bits.
//
// An object is named by its group, which is a part of a microbatch at a layer of a step, by its
// function, replica and minibatch, and by a hash of what it is made of. So a host that goes on
// for a killed one finds what that had finished. Objects are checked by digest. An aggregator
// removes a group's when it has summed; what is left goes by age. Where an object cannot be
// stored the rows go in messages, which is counted: no mode loses rows that another one has.
package transfer
