// Package models holds the checkpoints that travel inside the binary, so that
// the first command works without a download.
package models

import (
	"embed"
	"unsafe"
)

// Demo holds the small files beside the demo model's weights: configuration,
// tokenizer and model card, under "demo/".
//
//go:embed demo/config.json demo/generation_config.json demo/tokenizer.json demo/tokenizer_config.json demo/README.md
var Demo embed.FS

// DemoWeights returns the demo model's packed safetensors file (23.8 MB), which the binary for
// CUDA does not have, without a copy: the bytes lie in the binary's read-only pages, so they are paged in on
// use and a write to them faults, as with a memory map.
func DemoWeights() []byte {
	return unsafe.Slice(unsafe.StringData(demoWeights), len(demoWeights))
}

// DemoDigests are the SHA-256 of the demo model's tensors, as a JSON object by name,
// so that no start hashes them. A test of package model keeps them right.
//
//go:embed demo-digests.json
var DemoDigests []byte
