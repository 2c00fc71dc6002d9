// What the machine has with sm_90a, where HOPPER is defined: products of a group of four warps whose operands lie in shared
// memory, and copies to there that one thread begins and a signal tells the end of. The emulator
// (../emulate) has the same functions in plain C++.
//
// PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", "mbarrier" and
// "cp.async.bulk".
#pragma once
#include "machine.cuh"

// What operands begin at: the pattern in which eight rows' chunks are exchanged repeats here.
enum { operand_align = 1024 };

#if defined(SWITCHYARD_EMULATE) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER
#endif

#ifdef SWITCHYARD_EMULATE
#include "../emulate/cpp/hopper.h"
#elif defined(HOPPER)

// A block's dynamic shared memory, aligned for operands.
DEVICE u8* shared_operands() {
  extern __shared__ __align__(1024) u8 operands[];
  return operands;
}

// A signal's phase is over when as many have arrived as it was made for, and all bytes that
// they expect have come.
DEVICE void signal_make(u64* s, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(s)), "r"(arrivals) : "memory");
}

// Lets products and copies see what this thread has written to shared memory itself; a block barrier has to follow.
DEVICE void operands_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same of signals that it has made.
DEVICE void signals_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  operands_written();
}

DEVICE void signal_arrive(u64* s) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(s)) : "memory");
}

// Arrives, and expects so many bytes.
DEVICE void signal_expect(u64* s, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(s)), "r"(bytes) : "memory");
}

// Waits until a phase of this parity is over: 0 for the first.
DEVICE void signal_wait(u64* s, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again;\n"
      "}" ::"r"(shared_address(s)),
      "r"(parity)
      : "memory");
}

// Begins to copy a multiple of 16 bytes to shared memory. The signal gets to know of them.
DEVICE void bulk_copy(void* to, const void* from, u32 bytes, u64* s) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(s))
               : "memory");
}

// What has to be before the first product, and after sums were used otherwise.
DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Products since the last commit are a group.
DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until no more than so many groups of products are under way.
template <int N>
DEVICE void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Keeps what is done with sums behind a wait, of which the compiler does not know that it makes them.
template <int high, int wide>
DEVICE void products_there(float (&d)[high][wide][4]) {
#pragma unroll
  for (int m = 0; m < high; m++)
#pragma unroll
    for (int n = 0; n < wide; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[m][n][i])::"memory");
}

// Gives registers of a group of four warps back, so that each thread keeps so many; or takes as many.
template <int N>
DEVICE void registers_keep() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

// d += a · b for a (64, 16) and b (16, N) of bf16, as operand() tells. It goes on while the program
// does: d is there after products_wait. Of a warp's 16 rows lane l has d as mma's, N/8 times.
#define SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
DEVICE void wgmma(float (&d)[2][4], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, 1, 1, 1, 0, 0;"
      : SUMS(0), SUMS(1)
      : "l"(a), "l"(b));
}
DEVICE void wgmma(float (&d)[5][4], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n40k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19}, "
      "%20, %21, 1, 1, 1, 0, 0;"
      : SUMS(0), SUMS(1), SUMS(2), SUMS(3),
        SUMS(4)
      : "l"(a), "l"(b));
}
DEVICE void wgmma(float (&d)[17][4], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n136k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67}, "
      "%68, %69, 1, 1, 1, 0, 0;"
      : SUMS(0), SUMS(1), SUMS(2), SUMS(3),
        SUMS(4), SUMS(5), SUMS(6), SUMS(7),
        SUMS(8), SUMS(9), SUMS(10), SUMS(11),
        SUMS(12), SUMS(13), SUMS(14), SUMS(15),
        SUMS(16)
      : "l"(a), "l"(b));
}
#undef SUMS

#endif

#ifdef HOPPER
// An operand for a product: rows of 128 bytes, of which it takes 32 from here on. Eight rows lie behind
// each other, their chunks of 16 bytes exchanged: chunk c of row r is where c ^ r%8 is. PTX ISA, "Matrix
// Descriptor Format": the address, 1 where nothing is asked for, 1024 bytes to the next eight rows, and
// 1 for this exchange.
DEVICE u64 operand(const void* from) {
  return (u64)(shared_address(from) >> 4) | 1ull << 16 | (u64)(operand_align >> 4) << 32 | 1ull << 62;
}

// The operand so many bytes behind another one.
DEVICE u64 operand_behind(u64 operand, int bytes) { return operand + bytes / 16; }
#endif
