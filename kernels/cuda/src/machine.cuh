// What the kernels need of the machine: types, and the few instructions that C++
// has no words for. The emulator (../emulate) has the same functions in plain C++.
//
// Layouts of fragments are those of the PTX ISA, section "Matrix Fragments for
// mma.m16n8k16 with floating point type": of a 16 by 8 result lane l holds the rows
// l/4 (elements 0, 1) and l/4 + 8 (elements 2, 3) at the columns 2·(l%4) and the next.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifdef SWITCHYARD_EMULATE
#include "../emulate/cpp/machine.h"
#else

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
// A kernel whose blocks have so many threads; and, if that is told, run so many at a time on a processor.
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)

// A block's dynamic shared memory.
DEVICE u8* shared_memory() {
  extern __shared__ __align__(128) u8 bytes[];
  return bytes;
}

DEVICE void block_barrier() { __syncthreads(); }
DEVICE void warp_barrier() { __syncwarp(); }

// What lane l xor mask, or the lane named, has.
DEVICE float lane_xor(float v, int mask) { return __shfl_xor_sync(~0u, v, mask); }
DEVICE int lane_xor(int v, int mask) { return __shfl_xor_sync(~0u, v, mask); }
DEVICE float lane_at(float v, int lane) { return __shfl_sync(~0u, v, lane); }

DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE float root(float x) { return __fsqrt_rn(x); }
DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE float float_of(u32 bits) { return __uint_as_float(bits); }

// Rounds to the nearest bf16, ties to even.
DEVICE u16 to_bf16(float x) {
  u16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Begins to copy 16 bytes to shared memory, or to write as many zeros.
DEVICE void copy16(void* to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(real ? 16 : 0)
               : "memory");
}

// Copies since the last commit are a group.
DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until no more than so many groups of this thread are under way.
template <int N>
DEVICE void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Loads two or four matrices of 8 rows of 16 bytes: lanes 0 to 7 name the rows of the
// first, lanes 8 to 15 those of the second, and so on. Lane l gets two elements of
// row l/4 from column 2·(l%4) on. PTX ISA, "ldmatrix".
DEVICE void load_matrices(u32 (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}

DEVICE void load_matrices(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// The same of transposed matrices: lane l gets column l/4 of the rows 2·(l%4) and the next.
DEVICE void load_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// Loads 16 or 8 bytes of shared memory, of which the address is a multiple.
DEVICE void load_words(u32 (&r)[4], const void* from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(from))
               : "memory");
}

DEVICE void load_words(u32 (&r)[2], const void* from) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(from)) : "memory");
}

// The products of two pairs of bf16, each rounded once. What is added is -0, which changes none.
DEVICE u32 pair_product(u32 a, u32 b) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000u));
  return d;
}

// d += a · b for a (16, 16) and b (16, 8) of bf16.
DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

DEVICE float from_bf16(u16 h) { return float_of((u32)h << 16); }
DEVICE u32 pair_of(u16 low, u16 high) { return (u32)low | (u32)high << 16; }
DEVICE int lane_of() { return threadIdx.x % 32; }
DEVICE int warp_of() { return threadIdx.x / 32; }
