// What a GPU can do at most, for benchmarks to be read beside: reading its memory, and multiplying
// on its tensor cores.
#include "hopper.cuh"

struct alignas(16) Words {
  u32 of[4];
};

// Reads n times 16 bytes. What it writes, a word a thread, only keeps the compiler from leaving reads out.
KERNEL(256) ceiling_read(u32* out, const Words* in, i64 n) {
  i64 first = blockIdx.x * 256ll + threadIdx.x, stride = gridDim.x * 256ll;
  u32 all = 0;
#pragma unroll 8
  for (i64 i = first; i < n; i += stride) {
    Words w = in[i];
    all ^= w.of[0] ^ w.of[1] ^ w.of[2] ^ w.of[3];
  }
  out[first] = all;
}

// Each warp does steps times 8 products of (16, 16) and (16, 8), none of which waits for the one before it.
KERNEL(256) ceiling_mma(float* out, i64 steps) {
  u32 one = threadIdx.x % 2 ? 0x3f803f80u : 0xbf80bf80u;  // pairs of 1 or of -1
  u32 a[4] = {one, one, one, one};
  float d[8][4] = {};
  for (i64 step = 0; step < steps; step++) {
#pragma unroll
    for (int i = 0; i < 8; i++) mma(d[i], a, one, one);
  }
  float sum = 0;
  for (int i = 0; i < 8; i++) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  out[blockIdx.x * 256ll + threadIdx.x] = sum;
}

#ifdef HOPPER
// The same by wgmma, as experts' largest blocks do it: two groups of four warps do steps times 8 products of
// (64, 16) and (16, 136), half of which go to the same sums.
KERNEL(256) ceiling_wgmma(float* out, i64 steps) {
  u8* tokens = shared_operands();
  u8* weights = tokens + 17 * operand_align + threadIdx.x / 128 * 16 * operand_align;
  for (u32 i = threadIdx.x; i < 49 * operand_align / 4; i += 256) ((u32*)tokens)[i] = i % 2 ? 0x3f803f80u : 0xbf80bf80u;
  operands_written();
  block_barrier();
  float d[2][17][4] = {};
  for (i64 step = 0; step < steps; step++) {
    products_begin();
#pragma unroll
    for (int i = 0; i < 8; i++) wgmma(d[i % 2], operand(weights + i % 2 * 8 * operand_align + i / 2 * 32), operand(tokens + i / 2 * 32));
    products_commit();
    products_wait<1>();
  }
  products_wait<0>();
  products_there(d);
  float sum = 0;
  for (int n = 0; n < 17; n++)
    for (int i = 0; i < 4; i++) sum += d[0][n][i] + d[1][n][i];
  out[blockIdx.x * 256ll + threadIdx.x] = sum;
}
#endif
