// Package nvml reads a GPU's facts from NVIDIA's management library, which the driver
// installs (libnvidia-ml.so.1). It is looked for when the program runs; without it a
// GPU computes all the same.
//
// Its tests run on a library in C that answers what a test says. NVIDIA's has told of one
// H200, without MIG (docs/benchmarks/gpu.md).
package nvml
