// Package real is the CUDA driver of the machine, behind the build tag cuda; without
// it the package is empty.
//
// The binary starts on every machine: it is linked with trampolines (trampoline.S)
// in place of libcuda, and Open fills them by dlopen (load.c). gorgonia.org/cu ends
// the process when the driver does not come up while the package is initialised,
// so cuInit answers "well" until Open asks in earnest. What cu lacks (pinned memory,
// more shared memory than a kernel has by itself, launches without allocating) is
// called directly.
//
// Its tests run on a libcuda in C (testdata) that keeps device memory in the host's and
// answers as it is told to. With NVIDIA's driver it has run on one H200
// (docs/benchmarks/gpu.md).
package real
