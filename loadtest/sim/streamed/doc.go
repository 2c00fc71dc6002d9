// Package streamed simulates a trace of requests on rented functions: what plans that follow the
// requests are worth beside plans that stay (pkg/serverless/rented has one request at a time, on nothing
// that is warm).
//
//	trace ─loadtest/sim/requests─▶ batches ─▶ layers on the functions in force ─▶ times, and a bill
//	             └─ arrivals, rows of experts ─▶ policy ─plan─▶ functions start, then take over
//
// A batch has a row of each request that decodes, and prompts, whole. A layer takes what equation 1
// makes of the batch's rows (pkg/policy/cost/serverless): local experts one after the other on the
// main model's host, those of functions beside, each function's divided among the replicas that have
// started. A batch without rows of prompts is one invocation of a function, as gates have it.
//
// Every replica is billed from the start of its container to its end (pkg/policy/meter): as it
// starts and while it computes at the price of memory, and while it is kept at a part of it. One
// that has had no rows for the keep-alive ends; rows that find none wait for its start. The main
// model is rented all the time.
//
// MoEless has each expert as a function of its own, and replicas by algorithm 1 of the rows that
// came (pkg/policy/scale), on the same platform.
package streamed
