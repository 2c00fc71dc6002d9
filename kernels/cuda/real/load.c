//go:build cuda

#include <dlfcn.h>
#include <stddef.h>

// The trampolines jump to what the table says.
#define SYMBOL(name) #name,
static const char *const names[] = {
#include "symbols.h"
};
#undef SYMBOL
enum { symbols = sizeof names / sizeof names[0] };

static int well(void) { return 0; }
static int not_initialized(void) { return 3; }
static int not_found(void) { return 500; }

// The first symbol is cuInit, which package cu calls before anybody asked for a GPU.
__attribute__((visibility("hidden"))) void *switchyard_cuda_table[symbols] = {
	[0] = well, [1 ... symbols - 1] = not_initialized,
};

// switchyard_cuda_load fills the table from the driver's library; it returns why it cannot.
const char *switchyard_cuda_load(const char *library) {
	void *driver = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (driver == NULL) return dlerror();
	for (size_t i = 0; i < symbols; i++) {
		void *at = dlsym(driver, names[i]);
		switchyard_cuda_table[i] = at != NULL ? at : (void *)not_found;
	}
	return NULL;
}
