// Kernels by name, and their parameters in eight bytes each, as a driver takes them.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>
#include "block.h"

namespace emulate {

typedef void (*Kernel)();
typedef void (*Run)(Kernel, const uint64_t*);

struct Call {
  Kernel kernel;
  Run run;
  const uint64_t* args;
};

struct Entry {
  const char* name;
  Kernel kernel;
  Run run;
  unsigned parameters;
};

template <class T>
T argument(uint64_t bits) {
  static_assert(sizeof(T) <= 8, "a parameter has eight bytes");
  T v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

template <class... T, size_t... i>
void run_with(void (*kernel)(T...), const uint64_t* args, std::index_sequence<i...>) {
  kernel(argument<T>(args[i])...);
}

template <class... T>
void run_kernel(Kernel kernel, const uint64_t* args) {
  run_with((void (*)(T...))kernel, args, std::index_sequence_for<T...>());
}

template <class... T>
Entry entry(const char* name, void (*kernel)(T...)) {
  return {name, (Kernel)kernel, run_kernel<T...>, sizeof...(T)};
}

const char* run_grid(const Call& call, Index grid, Index shape, unsigned shared_bytes, unsigned schedule);

}  // namespace emulate
