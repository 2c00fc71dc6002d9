// Package model opens Mixture-of-Experts checkpoints in the Hugging Face
// layout: config.json, generation_config.json and safetensors files.
//
// A family is one small file of facts — which keys config.json has, what they
// mean and how the tensors are called (see mixtral.go) — and everything else
// works on the normalised Spec. What a config asks for and this package does
// not know is refused, because wrong numbers are worse than a clear no.
//
// The letters of shapes are those of package kernels/cpu.
package model
