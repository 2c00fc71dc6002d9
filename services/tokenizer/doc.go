// Package tokenizer is the pipeline's door: one Service is a replica. It wires four rooms,
// each of which is a package of its own, and starts and stops them:
//
//	intake     hears producers, takes prompts in, and makes them sequences
//	delivery   makes chunks of the token log, and brings them to their readers
//	admission  counts and decides which requests may wait
//	probe      looks how full the streams are, and whether tokens flow
//
// A room asks only those after it, which internal/imports holds:
//
//	intake ─▶ delivery ─▶ admission ─▶ probe
//
// The few words that go the other way come as functions or interfaces that New fills in.
package tokenizer
