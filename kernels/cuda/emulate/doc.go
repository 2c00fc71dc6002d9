// Package emulate runs the CUDA kernels of ../src on the processor: the same sources,
// compiled as plain C++ with a fiber for each thread (cpp/block.h). It shows that what is
// computed is right, whatever order threads run in, and that it stays within its
// memory; it says nothing about speed.
//
// It is behind the build tag emulate, needs cgo and g++, and is for tests.
package emulate
