// A libcuda for the tests of package real: what the package calls, on host memory. It
// does everything at once, so it shows calls and their parameters and no order. The
// environment says what it answers: FAKE_CUDA_VERSION, _DEVICES, _INIT, _MEMORY, and with which
// codes capturing fails: _BEGIN, _LAUNCH (in a capture), _END, _INSTANTIATE, _UPLOAD.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	invalid_value = 1,
	out_of_memory = 2,
	invalid_image = 200,
	not_found = 500,
	unsupported = 900,
	invalidated = 901,
	unmatched = 903,
	wrong_thread = 908,
};

static int setting(const char *name, int otherwise) {
	const char *v = getenv(name);
	return v ? atoi(v) : otherwise;
}

static __thread void *current;
static int context, stream, event, module;
static size_t used;
static int shared;

#define NEEDS_CONTEXT if (current != &context) return 201

// A capture keeps launches; what it cannot keep ends it. A graph and what is made of it are a byte
// of the device's memory each, as long as they are there.
typedef struct launch {
	unsigned sizes[7];
	uint64_t args[3];
} launch;
typedef struct graph {
	launch all[4];
	int count, ready, uploaded;
} graph;
static graph *capture;
static __thread int mine;
static int spoilt;

static int cannot(void) {
	if (capture == NULL) return 0;
	spoilt = 1;
	return unsupported;
}
#define NOT_CAPTURED if (cannot()) return unsupported

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
	if (mine) NOT_CAPTURED;
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
int cuEventRecord(void *e, void *s) { NEEDS_CONTEXT; NOT_CAPTURED; return e == &event && s == &stream ? 0 : invalid_value; }
int cuEventSynchronize(void *e) { NEEDS_CONTEXT; return e == &event ? 0 : invalid_value; }
int cuEventQuery(void *e) { static int asked; NEEDS_CONTEXT; return e != &event ? invalid_value : asked++ % 2 ? 0 : 600; }
int cuEventDestroy_v2(void *e) { NEEDS_CONTEXT; return e == &event ? 0 : invalid_value; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
	NEEDS_CONTEXT;
	NOT_CAPTURED;
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
static int store(const launch *l) {
	uint64_t all[10];
	for (int i = 0; i < 6; i++) all[i] = l->sizes[i];
	all[6] = shared, all[7] = l->sizes[6], all[8] = l->args[1], all[9] = l->args[2];
	memcpy((void *)l->args[0], all, sizeof all);
	return 0;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned bytes, void *s,
                   void **args, void **extra) {
	NEEDS_CONTEXT;
	if (f != &shared || s != &stream || extra) return invalid_value;
	launch l = {{gx, gy, gz, bx, by, bz, bytes}, {*(uint64_t *)args[0], *(uint64_t *)args[1], *(uint64_t *)args[2]}};
	if (capture == NULL) return store(&l);
	int fails = setting("FAKE_CUDA_LAUNCH", 0);
	if (fails || capture->count == 4) return fails ? fails : invalid_value;
	capture->all[capture->count++] = l;
	return 0;
}
int cuStreamBeginCapture_v2(void *s, int mode) {
	NEEDS_CONTEXT;
	int fails = setting("FAKE_CUDA_BEGIN", 0);
	if (s != &stream || mode != 1 || capture || fails) return fails ? fails : invalid_value; // of a thread
	capture = calloc(1, sizeof *capture), mine = 1, spoilt = 0, used++;
	return 0;
}
int cuStreamEndCapture(void *s, graph **g) {
	NEEDS_CONTEXT;
	*g = NULL;
	if (s != &stream || capture == NULL) return unmatched;
	if (!mine) return wrong_thread;
	graph *made = capture;
	int fails = spoilt ? invalidated : setting("FAKE_CUDA_END", 0);
	capture = NULL, mine = 0;
	if (fails) free(made), used--;
	else *g = made;
	return fails;
}
int cuGraphInstantiateWithFlags(graph **exec, graph *g, unsigned long long flags) {
	NEEDS_CONTEXT;
	int fails = setting("FAKE_CUDA_INSTANTIATE", 0);
	if (flags || g->ready || fails) return fails ? fails : invalid_value;
	*exec = malloc(sizeof **exec), used++;
	**exec = *g, (*exec)->ready = 1;
	return 0;
}
int cuGraphUpload(graph *exec, void *s) {
	NEEDS_CONTEXT;
	int fails = setting("FAKE_CUDA_UPLOAD", 0);
	if (s != &stream || !exec->ready || fails) return fails ? fails : invalid_value;
	exec->uploaded = 1;
	return 0;
}
int cuGraphLaunch(graph *exec, void *s) {
	NEEDS_CONTEXT;
	NOT_CAPTURED;
	if (s != &stream || !exec->uploaded) return invalid_value;
	for (int i = 0; i < exec->count; i++) store(&exec->all[i]);
	return 0;
}
int cuGraphExecDestroy(graph *exec) { NEEDS_CONTEXT; int is = exec->ready; free(exec), used--; return is ? 0 : invalid_value; }
int cuGraphDestroy(graph *g) { NEEDS_CONTEXT; int is = !g->ready; free(g), used--; return is ? 0 : invalid_value; }
