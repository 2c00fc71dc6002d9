// Package requests simulates the serving of requests on the engine of package sim: they
// arrive, wait for a seat, are computed in batches, and end, each at a time that depends on
// how fast the policy is.
//
// A batch is what pkg/policy/batching takes, as attention does it: a row of each sequence
// that decodes, and pieces of prompts. Batches follow each other; that the product has two
// in flight, so that one's messages hide behind the other's computing, is left out. Keys and
// values have memory of their own, which is taken to suffice for Settings.MaxSequences.
//
// A row's experts depend on its request and its place there (Tape), never on its batch. So
// policies are compared on the same rows, whatever batches they make of them.
package requests
