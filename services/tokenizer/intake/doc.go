// Package intake is the tokenizer's door. It hears producers (edge.go, discovery.go), stores
// what they ask among the prompts (asks.go), takes prompts from that queue (prompts.go), and
// makes each a token log and a sequence for attention, or tells its producer why not
// (accept.go).
//
//	ask ─▶ Asks ─▶ PROMPTS ─▶ Prompts ─accept─▶ token log, SEQUENCES ─▶ attention
//
// Prompts of one request are taken in the order in which they came (sequencer.go); one that
// was delivered before is tried alone first, as it may have taken a replica down (isolate.go).
//
// intake asks the tokenizer's other rooms, and none of them knows it:
//
//	intake ─▶ delivery ─▶ admission ─▶ probe
package intake
