// The instructions of src/machine.cuh in plain C++. What all lanes of a warp do together is done
// by the lane that comes last; see block.h.
#pragma once
#include <cmath>
#include <cstring>
#include "block.h"

#define __global__
#define __device__
#define __shared__ static
#define DEVICE static inline
#define DEVICE_MEMBER inline
#define KERNEL(...) extern "C" void
#define threadIdx (emulate::self->index)
#define blockIdx (emulate::block->index)
#define gridDim (emulate::block->grid)

DEVICE u8* shared_memory() { return emulate::block->shared; }
DEVICE void block_barrier() { emulate::block->barrier.wait("block_barrier"); }
DEVICE void warp_barrier() { emulate::warp().barrier.wait("warp_barrier"); }

DEVICE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float root(float x) { return __builtin_sqrtf(x); }
DEVICE u32 bits_of(float x) {
  u32 bits;
  memcpy(&bits, &x, 4);
  return bits;
}
DEVICE float float_of(u32 bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

DEVICE u16 to_bf16(float x) {
  if (x != x) return 0x7fff;
  u32 bits = bits_of(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

template <class T>
struct FromLane {
  T v;
  int lane;
};

template <class T>
DEVICE T lane_value(const char* what, T v, int lane) {
  return emulate::together<FromLane<T>, T>(what, {v, lane}, [](const FromLane<T>* in, T* out) {
    for (int l = 0; l < 32; l++) out[l] = in[in[l].lane % 32].v;
  });
}

DEVICE float lane_xor(float v, int mask) { return lane_value("lane_xor of a float", v, emulate::lane() ^ mask); }
DEVICE int lane_xor(int v, int mask) { return lane_value("lane_xor of an int", v, emulate::lane() ^ mask); }
DEVICE float lane_at(float v, int lane) { return lane_value("lane_at", v, lane); }

DEVICE void copy16(void* to, const void* from, bool real) { emulate::self->begin_copy(to, from, real); }
DEVICE void copies_commit() { emulate::self->commit(); }
template <int N>
DEVICE void copies_wait() {
  emulate::self->wait_copies(N);
}

template <int matrices>
struct Matrices {
  u32 r[matrices];
};

// Lane l gets two elements of each matrix: of a row, or, transposed, of a column.
template <int matrices>
void load_all(const void* const* rows, Matrices<matrices>* out, bool transposed) {
  for (int m = 0; m < matrices; m++) {
    const u16* row[8];
    for (int i = 0; i < 8; i++) row[i] = (const u16*)emulate::checked_words(rows[8 * m + i], 16);
    emulate::count_conflicts((const void* const*)row, 8, 16);
    for (int l = 0; l < 32; l++) {
      int a = l / 4, b = l % 4 * 2;
      u16 low = transposed ? row[b][a] : row[a][b], high = transposed ? row[b + 1][a] : row[a][b + 1];
      out[l].r[m] = (u32)low | (u32)high << 16;
    }
  }
}

template <int n>
DEVICE void load_with(const char* what, u32 (&r)[n], const void* row, bool transposed) {
  typedef Matrices<n> M;
  M got = transposed ? emulate::together<const void*, M>(what, row, [](auto in, M* out) { load_all<n>(in, out, true); })
                     : emulate::together<const void*, M>(what, row, [](auto in, M* out) { load_all<n>(in, out, false); });
  memcpy(r, got.r, sizeof r);
}

DEVICE void load_matrices(u32 (&r)[2], const void* row) { load_with("ldmatrix.x2", r, row, false); }
DEVICE void load_matrices(u32 (&r)[4], const void* row) { load_with("ldmatrix.x4", r, row, false); }
DEVICE void load_transposed(u32 (&r)[4], const void* row) { load_with("ldmatrix.x4.trans", r, row, true); }

// Lanes of a quarter of a warp, or of half of it, load at a time.
template <int n>
void load_words_all(const void* const* from, Matrices<n>* out) {
  const int lanes = 32 / n;
  for (int first = 0; first < 32; first += lanes) {
    for (int l = first; l < first + lanes; l++) memcpy(out[l].r, emulate::checked_words(from[l], 4 * n), 4 * n);
    emulate::count_conflicts(from + first, lanes, 4 * n);
  }
}

template <int n>
DEVICE void load_words(u32 (&r)[n], const void* from) {
  typedef Matrices<n> M;
  M got = emulate::together<const void*, M>("load_words", from, [](auto in, M* out) { load_words_all<n>(in, out); });
  memcpy(r, got.r, sizeof r);
}

struct MmaIn {
  u32 a[4], b[2];
  float d[4];
};
struct MmaOut {
  float d[4];
};

DEVICE float half_of(u32 pair, int i) { return float_of(i ? pair & 0xffff0000u : pair << 16); }

DEVICE u32 pair_product(u32 a, u32 b) {
  u32 low = to_bf16(half_of(a, 0) * half_of(b, 0)), high = to_bf16(half_of(a, 1) * half_of(b, 1));
  return low | high << 16;
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": register i of a has row
// l/4 + 8·(i%2) and columns 2·(l%4) + 8·(i/2); register i of b rows 2·(l%4) + 8·i and column l/4.
// A sum is exact and rounded once; the hardware's is not, but in an order of its own.
inline void mma_all(const MmaIn* in, MmaOut* out) {
  static double a[16][16], b[8][16];
  for (int l = 0; l < 32; l++) {
    for (int i = 0; i < 8; i++) a[l / 4 + i / 2 % 2 * 8][l % 4 * 2 + i / 4 * 8 + i % 2] = half_of(in[l].a[i / 2], i % 2);
    for (int i = 0; i < 4; i++) b[l / 4][l % 4 * 2 + i / 2 * 8 + i % 2] = half_of(in[l].b[i / 2], i % 2);
  }
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++) {
      const double *row = a[l / 4 + i / 2 * 8], *column = b[l % 4 * 2 + i % 2];
      double sum = in[l].d[i];
      for (int k = 0; k < 16; k++) sum += row[k] * column[k];
      out[l].d[i] = (float)sum;
    }
}

DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  MmaIn in = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  MmaOut out = emulate::together<MmaIn, MmaOut>("mma", in, mma_all);
  memcpy(d, out.d, sizeof d);
}
