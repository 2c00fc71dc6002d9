// A libcuda for the tests of package real: what the package calls, on host memory. It
// does everything at once, so it shows calls and their parameters and no order. The
// environment says what it answers: FAKE_CUDA_VERSION, _DEVICES, _INIT, _MEMORY.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { invalid_value = 1, out_of_memory = 2, invalid_image = 200, not_found = 500 };

static int setting(const char *name, int otherwise) {
	const char *v = getenv(name);
	return v ? atoi(v) : otherwise;
}

static __thread void *current;
static int context, stream, event, module;
static size_t used;
static int shared;

#define NEEDS_CONTEXT if (current != &context) return 201

int cuInit(unsigned flags) { return flags ? invalid_value : setting("FAKE_CUDA_INIT", 0); }
int cuDriverGetVersion(int *v) { *v = setting("FAKE_CUDA_VERSION", 12090); return 0; }
int cuDeviceGetCount(int *n) { *n = setting("FAKE_CUDA_DEVICES", 2); return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *to, int n, int d) { snprintf(to, n, "fake %d", d); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = setting("FAKE_CUDA_MEMORY", 1 << 20); return 0; }
int cuDeviceGetAttribute(int *v, int attribute, int d) {
	switch (attribute) {
	case 75: *v = 9; return 0; // its architecture is 9.0
	case 76: *v = 0; return 0;
	case 16: *v = 132; return 0; // multiprocessors
	case 97: *v = 232448; return 0; // shared memory of a block
	case 50: *v = 1; return 0; // domain, bus and number on PCI
	case 33: *v = 0x3b; return 0;
	case 34: *v = d; return 0;
	}
	return invalid_value;
}
int cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; *c = &context; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { (void)d; return 0; }
int cuCtxSetCurrent(void *c) { current = c; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
	NEEDS_CONTEXT;
	cuDeviceTotalMem_v2(total, 0);
	*free = *total - used;
	return 0;
}
int cuMemAlloc_v2(uint64_t *p, size_t n) {
	NEEDS_CONTEXT;
	size_t free, total;
	cuMemGetInfo_v2(&free, &total);
	if (n > free) return out_of_memory;
	used += n;
	*p = (uint64_t)calloc(1, n);
	return 0;
}
int cuMemFree_v2(uint64_t p) { NEEDS_CONTEXT; free((void *)p); return 0; }
int cuMemHostAlloc(void **p, size_t n, unsigned flags) {
	NEEDS_CONTEXT;
	if (flags != 1) return invalid_value; // portable
	*p = calloc(1, n);
	return 0;
}
int cuMemFreeHost(void *p) { NEEDS_CONTEXT; free(p); return 0; }
int cuStreamCreate(void **s, unsigned flags) { NEEDS_CONTEXT; *s = &stream; return flags == 1 ? 0 : invalid_value; }
int cuStreamDestroy_v2(void *s) { NEEDS_CONTEXT; return s == &stream ? 0 : invalid_value; }
int cuEventCreate(void **e, unsigned flags) { NEEDS_CONTEXT; *e = &event; return flags == 3 ? 0 : invalid_value; }
int cuEventRecord(void *e, void *s) { NEEDS_CONTEXT; return e == &event && s == &stream ? 0 : invalid_value; }
int cuEventSynchronize(void *e) { NEEDS_CONTEXT; return e == &event ? 0 : invalid_value; }
int cuEventDestroy_v2(void *e) { NEEDS_CONTEXT; return e == &event ? 0 : invalid_value; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
	NEEDS_CONTEXT;
	memcpy((void *)to, from, n);
	return s == &stream ? 0 : invalid_value;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) {
	NEEDS_CONTEXT;
	memcpy(to, (void *)from, n);
	return s == &stream ? 0 : invalid_value;
}
// An image is good if it begins with "kernels" and has a zero behind its bytes, of which
// the first after the name may be zero too.
int cuModuleLoadData(void **m, const char *image) {
	NEEDS_CONTEXT;
	*m = &module;
	return strncmp(image, "kernels", 7) || image[7] || image[8] != '!' || image[9] ? invalid_image : 0;
}
int cuModuleGetFunction(void **f, void *m, const char *name) {
	NEEDS_CONTEXT;
	*f = &shared;
	return m == &module && !strcmp(name, "store") ? 0 : not_found;
}
int cuFuncSetAttribute(void *f, int attribute, int value) {
	NEEDS_CONTEXT;
	if (f != &shared || attribute != 8) return invalid_value;
	shared = value;
	return 0;
}
// The kernel stores what it was launched with: the grid, the block, the shared memory
// that it may have and has, and its second and third parameter.
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned bytes, void *s,
                   void **args, void **extra) {
	NEEDS_CONTEXT;
	if (f != &shared || s != &stream || extra) return invalid_value;
	uint64_t all[] = {gx, gy, gz, bx, by, bz, shared, bytes, *(uint64_t *)args[1], *(uint64_t *)args[2]};
	memcpy(*(void **)args[0], all, sizeof all);
	return 0;
}
