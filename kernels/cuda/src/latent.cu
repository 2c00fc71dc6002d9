// Attention over a latent cache (multi-head latent attention, DeepSeek-V2, arXiv:2405.04434,
// section 2.1.2): all query heads share one line a position, whose first elements are the value.
// Queries come multiplied by their heads' key expansions, as kernels/cpu explains.
//
// A block of four warps has 16 heads of one row, and one split. Of each page a warp makes the scores of
// eight positions; then all have the weights of all 32, and mix a quarter of the dimensions each.
#include "attend.cuh"

// A chunk of a line of w elements in shared memory; w is a multiple of 64.
DEVICE u8* line_chunk(u8* plane, int row, int chunk, i64 w) { return plane + row * (2 * w) + 16 * (chunk ^ row % 8); }

// A page's lines: P parts of (32, w).
DEVICE u16* lines_of(const u64* pages, i64 page, i64 layer_at) { return (u16*)(pages[page] + layer_at); }

template <int P>
DEVICE void store_line(const float* line, const u32* position, const u32* pages_at, const u64* pages, i64 layer_at, i64 ld,
                       i64 c, i64 w) {
  i64 row = blockIdx.x, at = position[row];
  u16* to = lines_of(pages, pages_at[row] + at / page_positions, layer_at) + at % page_positions * w;
  for (i64 i = threadIdx.x; i < w; i += 128) {
    u16 part[P];
    split(i < c ? line[row * ld + i] : 0.f, part);
#pragma unroll
    for (int p = 0; p < P; p++) to[p * plane_of(w) + i] = part[p];
  }
}

// Begins to load pages, see Loader.
template <int P>
struct LineLoader {
  const u64* pages;
  i64 layer_at, w;
  Span span;

  DEVICE_MEMBER int bytes() const { return 2 * P * page_positions * (int)w; }
  DEVICE_MEMBER void operator()(u8* stage, int page) const {
    int row_chunks = w / 8;
    const u16* lines = lines_of(pages, page, layer_at);
    for (int i = threadIdx.x; i < P * page_positions * row_chunks; i += 128) {
      int line = i / row_chunks;  // of all parts
      bool real = span.has(page * page_positions + line % page_positions);
      copy16(line_chunk(stage, line, i % row_chunks, w), lines + (real ? 8 * (i64)i : 0), real);
    }
  }
};

// The queries' parts, (P, 16, w) in shared memory.
template <int P>
DEVICE void put_queries(u8* to, const Queries& in, int from, i64 w) {
  for (int i = threadIdx.x; i < 16 * w; i += 128) {
    int query = i / w, dim = i % w;
    u16 part[P];
    split(in.at(from + query, dim), part);
#pragma unroll
    for (int p = 0; p < P; p++) ((u16*)line_chunk(to, 16 * p + query, dim / 8, w))[dim % 8] = part[p];
  }
}

// This warp's eight positions' scores, by all queries.
template <int P>
DEVICE void score_lines(float (&scores)[4], u8* queries, u8* lines, i64 w) {
  int lane = lane_of(), position = 8 * warp_of() + lane % 8;
#pragma unroll
  for (int i = 0; i < 4; i++) scores[i] = 0;
  for (int s = 0; s < w / 16; s++) {
    u32 q[P][4], k[P][2];
#pragma unroll
    for (int p = 0; p < P; p++) {
      load_matrices(q[p], line_chunk(queries, 16 * p + lane % 16, 2 * s + lane / 16, w));
      load_matrices(k[p], line_chunk(lines, page_positions * p + position, 2 * s + lane / 8 % 2, w));
    }
#pragma unroll
    for (int kp = 0; kp < P; kp++)
#pragma unroll
      for (int qp = 0; qp < P - kp; qp++) mma(scores, q[qp], k[kp][0], k[kp][1]);
  }
}

// Gives all warps the scores of all, by way of shared memory (16, 32).
DEVICE void share_scores(Scores& all, const float (&own)[4], float* shared) {
  int row = lane_of() / 4, column = lane_of() % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; i++) shared[(row + i / 2 * 8) * page_positions + 8 * warp_of() + column + i % 2] = own[i];
  block_barrier();
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) all[n][i] = shared[(row + i / 2 * 8) * page_positions + 8 * n + column + i % 2];
}

// R is the most elements of a value. A quarter of them is a warp's.
template <int P, int R>
DEVICE void attend_latent(float* part, const float* q, const u32* start, const u32* end, const u32* pages_at,
                          const u64* pages, i64 layer_at, i64 heads, i64 c, i64 w, i64 ldq, i64 splits, float scale) {
  i64 row = blockIdx.z;
  int number = blockIdx.x, from = blockIdx.y * 16, first = warp_of() * (R / 4);  // of the warp's dimensions
  Span span = split_span(start[row], end[row], number * split_positions);
  if (span.from >= span.to) return;
  Queries in = {q, start, end, row, 1, ldq, c, 0, (int)heads};
  LineLoader<P> load = {pages + pages_at[row], layer_at, w, span};
  u8* queries = shared_memory() + 2 * load.bytes();
  float* shared = (float*)(queries + 32 * P * w);
  put_queries<P>(queries, in, from, w);
  Warp<P, R / 4> state;
  load_ranges(state, in, from);
  begin_split(state);
  each_page(span, load, [&](u8* stage, int page) {
    float own[4];
    Scores scores;
    score_lines<P>(own, queries, stage, w);
    share_scores(scores, own, shared);
#pragma unroll
    for (int i = 0; i < 2; i++)
      weigh_scores(scores, state, i, mask_scores(scores, state, i, page * page_positions, scale));
    mix(state, scores, [&](int part, int row, int chunk) {
      return line_chunk(stage, page_positions * part + row, first / 8 + chunk, w);
    });
  });
  Splits{part, heads, splits, R, first}.put(state, in, from, number);
}

#define LATENT(P)                                                                                                 \
  KERNEL(128)                                                                                                     \
  latent_store_p##P(const float* line, const u32* position, const u32* pages_at, const u64* pages, i64 layer_at,  \
                    i64 ld, i64 c, i64 w) {                                                                       \
    store_line<P>(line, position, pages_at, pages, layer_at, ld, c, w);                                           \
  }
LATENT(1)
LATENT(2)

#define ATTEND_LATENT(P, R)                                                                                       \
  KERNEL(128)                                                                                                     \
  attend_latent_p##P##_r##R(float* part, const float* q, const u32* start, const u32* end, const u32* pages_at,   \
                            const u64* pages, i64 layer_at, i64 heads, i64 c, i64 w, i64 ldq, i64 splits,         \
                            float scale) {                                                                       \
    attend_latent<P, R>(part, q, start, end, pages_at, pages, layer_at, heads, c, w, ldq, splits, scale);         \
  }
ATTEND_LATENT(1, 64)
ATTEND_LATENT(1, 512)
ATTEND_LATENT(2, 64)
ATTEND_LATENT(2, 512)
