// The instructions of src/hopper.cuh in plain C++. What they begin is over as late as the program allows;
// see block.h.
#pragma once
#include "machine.h"

namespace emulate {
Signal* signal_at(const void* p);
void make_signal(const void* p, unsigned arrivals);
void show_signals();
void wait_signal(const void* p, unsigned parity);
void begin_bulk(void* to, const void* from, size_t bytes, const void* signal);
void begin_products();
void begin_product(float* sums, unsigned columns, uint64_t a, uint64_t b);
void wait_products(unsigned groups);
}  // namespace emulate

DEVICE u8* shared_operands() { return emulate::block->shared; }
DEVICE u32 shared_address(const void* p) { return emulate::block->offset(p); }

DEVICE void signal_make(u64* s, u32 arrivals) { emulate::make_signal(s, arrivals); }
DEVICE void signals_made() { emulate::show_signals(); }
DEVICE void operands_written() {}
DEVICE void signal_arrive(u64* s) { emulate::signal_at(s)->change(1, 0); }
DEVICE void signal_expect(u64* s, u32 bytes) { emulate::signal_at(s)->change(1, bytes); }
DEVICE void signal_wait(u64* s, u32 parity) { emulate::wait_signal(s, parity); }
DEVICE void bulk_copy(void* to, const void* from, u32 bytes, u64* s) { emulate::begin_bulk(to, from, bytes, s); }

DEVICE void products_begin() { emulate::begin_products(); }
DEVICE void products_commit() { emulate::self->products_group++; }
template <int N>
DEVICE void products_wait() {
  emulate::wait_products(N);
}
template <int high, int wide>
DEVICE void products_there(float (&)[high][wide][4]) {}
template <int N>
DEVICE void registers_keep() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "no number of registers that a group may ask for");
  emulate::self->registers = N;
}
template <int N>
DEVICE void registers_take() {
  registers_keep<N>();
}

template <int wide>
DEVICE void wgmma(float (&d)[wide][4], u64 a, u64 b) {
  emulate::begin_product(&d[0][0], 8 * wide, a, b);
}
