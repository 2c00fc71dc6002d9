// Package tokenizer is the pipeline's door. It takes prompts in, makes them
// sequences, and turns the token log into the chunks that producers get.
//
//	ask ─▶ PROMPTS ─▶ intake ─accept─▶ token log, SEQUENCES ─▶ attention
//	reply subject ◀─ answer (one a request) ◀─ shard owner ◀─ token log
//
// Chunks are a function of the log alone, so all readers make the same
// ones: the owner of the request's shard, a replay, or the owner after it.
package tokenizer
