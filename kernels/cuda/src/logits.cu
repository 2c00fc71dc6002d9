// Logits of a gate: each is one chain of fused products over ascending columns, as in kernels/cpu, so that
// a gate chooses the same experts on both. Tensor cores sum in another order; a gate's matrix is small.
#include "numbers.cuh"

// A block has 32 experts, one a lane, and 16 rows, four a warp. It goes through the columns in pieces.
enum { logit_experts = 32, logit_rows = 16, rows_a_warp = 4, logit_threads = 128, logit_piece = 64, logit_stages = 4 };

template <class W>
struct Logits {
  const float* x;  // (rows, kp)
  const W* w;      // (e, kp)
  i64 rows, e, kp, row, expert;  // the last two: the block's first
};

// A piece in shared memory: rows of weights, with 16 bytes between them so that lanes load from different
// banks, then rows of x.
template <class W>
struct Piece {
  enum {
    weights = logit_piece * sizeof(W),
    pitch = weights + 16,
    x_at = logit_experts * pitch,
    x_pitch = logit_piece * 4,
    bytes = x_at + logit_rows * x_pitch,
  };
};

// Begins to load the piece of a number. What lies beyond the last expert or row is zero.
template <class W>
DEVICE void load_logits(u8* stage, const Logits<W>& in, i64 number) {
  typedef Piece<W> P;
  const int chunks = P::weights / 16, x_chunks = P::x_pitch / 16;
  for (int i = threadIdx.x; i < logit_experts * chunks; i += logit_threads) {
    i64 expert = in.expert + i / chunks;
    const u8* from = (const u8*)(in.w + (expert < in.e ? expert : 0) * in.kp + number * logit_piece);
    copy16(stage + i / chunks * P::pitch + 16 * (i % chunks), from + 16 * (i % chunks), expert < in.e);
  }
  for (int i = threadIdx.x; i < logit_rows * x_chunks; i += logit_threads) {
    i64 row = in.row + i / x_chunks;
    const float* from = in.x + (row < in.rows ? row : 0) * in.kp + number * logit_piece;
    copy16(stage + P::x_at + 16 * i, from + 4 * (i % x_chunks), row < in.rows);
  }
}

// Eight weights of a row in shared memory.
DEVICE void load_eight(float (&w)[8], const u16* from) {
  u32 pairs[4];
  load_words(pairs, from);
#pragma unroll
  for (int i = 0; i < 4; i++) w[2 * i] = from_bf16(pairs[i] & 0xffff), w[2 * i + 1] = from_bf16(pairs[i] >> 16);
}

DEVICE void load_eight(float (&w)[8], const float* from) {
  u32 words[4];
#pragma unroll
  for (int half = 0; half < 2; half++) {
    load_words(words, from + 4 * half);
    for (int i = 0; i < 4; i++) w[4 * half + i] = float_of(words[i]);
  }
}

// Four numbers that are loaded at once, here the same ones by all lanes.
struct alignas(16) Four {
  float v[4];
};

// Goes on with the chains of a lane's expert and its warp's rows.
template <class W>
DEVICE void add_logits(float (&acc)[rows_a_warp], const u8* stage) {
  typedef Piece<W> P;
  const W* weights = (const W*)(stage + lane_of() * P::pitch);
  const Four* x = (const Four*)(stage + P::x_at + warp_of() * rows_a_warp * P::x_pitch);
  for (int k = 0; k < logit_piece; k += 8) {
    float w[8];
    load_eight(w, weights + k);
#pragma unroll
    for (int r = 0; r < rows_a_warp; r++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        Four some = x[(r * logit_piece + k) / 4 + half];
#pragma unroll
        for (int i = 0; i < 4; i++) acc[r] = fused(some.v[i], w[4 * half + i], acc[r]);
      }
    }
  }
}

// logits (rows, e) = x · wᵀ + bias.
template <class W>
DEVICE void route_logits(float* logits, const float* bias, Logits<W> in) {
  u8* shared = shared_memory();
  auto stage = [&](i64 number) { return shared + number % logit_stages * Piece<W>::bytes; };
  i64 pieces = in.kp / logit_piece, first = in.row + warp_of() * rows_a_warp;
  for (i64 p = 0; p < logit_stages - 1; p++) {
    if (p < pieces) load_logits(stage(p), in, p);
    copies_commit();
  }
  float acc[rows_a_warp] = {};
  for (i64 p = 0; p < pieces; p++) {
    copies_wait<logit_stages - 2>();
    block_barrier();  // the piece is there, and the one before it has been used
    i64 next = p + logit_stages - 1;
    if (next < pieces) load_logits(stage(next), in, next);
    copies_commit();
    if (first < in.rows) add_logits<W>(acc, stage(p));
  }
  i64 expert = in.expert + lane_of();
  for (int r = 0; r < rows_a_warp && first + r < in.rows && expert < in.e; r++)
    logits[(first + r) * in.e + expert] = bias ? acc[r] + bias[expert] : acc[r];
}

#define ROUTE_LOGITS(name, W)                                                                                  \
  KERNEL(logit_threads)                                                                                        \
  route_logits_##name(float* logits, const float* x, const W* w, const float* bias, i64 rows, i64 e, i64 kp) { \
    route_logits<W>(logits, bias, {x, w, rows, e, kp, logit_rows * blockIdx.y, logit_experts * blockIdx.x});   \
  }
ROUTE_LOGITS(bf16, u16)
ROUTE_LOGITS(f32, float)
