// Package probe is what a tokenizer finds out about the pipeline by looking: how full
// the durable streams are and what the servers' clock shows, how many sequences wait
// for attention, which stages are there, and whether tokens flow. Where no producer
// sends anything, canaries find that out: requests of one token.
//
// The other rooms of the tokenizer ask what was seen, and say what they have done:
//
//	intake ─▶ delivery ─▶ admission ─▶ probe
//
// probe is the last in that order and imports none of them; what it needs to know of
// them comes through Ledger and Settings.Owns.
package probe
