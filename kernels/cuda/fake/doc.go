// Package fake is a CUDA device in plain Go. It has what makes devices hard to
// use: streams run behind their callers, memory is not the host's, only pinned
// host memory can be copied, what goes wrong in a kernel shows later and ends
// the context, and other processes take memory. Kernels are Go functions by name.
//
// What it does not show: time, and whether a kernel is right.
package fake
