// Package safetensors reads and writes the safetensors format: eight bytes of
// header length (little endian), a JSON header that names each tensor's dtype,
// shape and byte range, and the tensors' bytes.
//
// Files are memory-mapped and tensors are views of the mapping, so that one
// expert of a large checkpoint is read without reading the rest. Nothing in the
// header is believed before it has been checked against the file: bad input
// gives an error that names the file, the tensor and the byte, never a panic.
// Where a file is not there but a packed one beside it, that is read instead: see
// Pack.
//
// Format: https://huggingface.co/docs/safetensors (header limits and the ban on
// overlaps and holes are those of the reference implementation).
package safetensors
