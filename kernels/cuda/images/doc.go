// Package images has the kernels that make build-cuda has made of kernels/cuda/src;
// without the build tag cuda it is empty.
package images
