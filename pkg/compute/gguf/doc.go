// Package gguf reads GGUF, the file format of llama.cpp: a header of named values, among
// them the model's architecture, a list of tensors, and the tensors' bytes. Files are
// memory-mapped and tensors are views of the mapping, as with package safetensors, whose
// type of a tensor they have. Shapes are turned round: GGUF names the dimension of
// neighbours first.
//
// Versions 2 and 3, little endian. Nothing in the header is believed before it has been
// checked against the file: bad input gives an error that names the file, the key or
// tensor and the byte, never a panic.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
package gguf
