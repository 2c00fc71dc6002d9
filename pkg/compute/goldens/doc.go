// Package goldens makes the checkpoints whole that the tests of models read.
//
// The repository has their configuration, and what transformers computes on them, but not
// their weights, of which only the beginning is no noise: torch drew them from its
// generator, so weights.json.gz says from which seed, and where each tensor begins in what was
// drawn. Dir draws them again, bit by bit, and checks a SHA-256 over all. A folder with a
// model.safetensors needs no weights.json.gz.
package goldens
