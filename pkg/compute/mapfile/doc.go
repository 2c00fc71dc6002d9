// Package mapfile keeps stores of expert maps (pkg/policy/expertmap) in files: whole, as
// snapshots, and a tenant's maps for other programs, as safetensors.
//
// A map's embedding is a token, or a mean of tokens, so both are prompt text. Files are
// readable by their owner alone. Stores of past prompts (pkg/policy/predict/sps) are kept alike.
//
// A snapshot has its name only when it is whole: until then it stands beside it as
// FILE.partial. An exported file has the tensors
//
//	embeddings F32 (N, D)     absent where maps have none
//	maps       F32 (N, L, J)
//
// the oldest map first, and in its metadata format, tenant, model and top_k.
package mapfile
