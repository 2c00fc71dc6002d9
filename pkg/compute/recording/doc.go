// Package recording holds what a model's gates saw and chose on real texts: for
// each token and layer the chosen experts and the gate's input, with the token's
// domain, phase, sequence and position. Predictors are trained on it, and the
// simulator takes its routing from it.
//
// A recording is a safetensors file; R is its number of rows (tokens), which lie
// sequence by sequence, by position:
//
//	domain            U8  (R)     index into the metadata's domains
//	phase             U8  (R)     0 prompt, 1 answer
//	sequence          I32 (R)     from 0, ascending
//	position, token   I32 (R)
//	layer.L.experts   U16 (R, k)  the gate's choices by slot, for each layer L with experts
//	layer.L.inputs    BF16 (R, D) what the gate saw, as it travels; may be left out
//
// Files are memory-mapped and written in place, so neither side holds one in
// memory. Routing is checked whole when a file is opened.
package recording
