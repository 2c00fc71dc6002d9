//go:build cuda

#include <cuda.h>
#include <stdint.h>

#define MOST_ARGS 32

// switchyard_launch starts a kernel whose parameters have eight bytes each.
CUresult switchyard_launch(CUfunction f, const uint32_t *size, uint32_t shared, CUstream s, uint64_t *args, int n) {
	void *at[MOST_ARGS];
	if (n > MOST_ARGS) return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < n; i++) at[i] = &args[i];
	return cuLaunchKernel(f, size[0], size[1], size[2], size[3], size[4], size[5], shared, s, at, 0);
}
