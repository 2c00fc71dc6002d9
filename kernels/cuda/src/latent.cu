// Attention over a latent cache (multi-head latent attention, DeepSeek-V2, arXiv:2405.04434,
// section 2.1.2): all query heads share one line a position, whose first elements are the value.
// Queries come multiplied by their heads' key expansions, as kernels/cpu explains.
//
// Four warps have 16 queries. Of each page a warp makes the scores of eight positions; then all have
// the weights of all 32, and mix a quarter of the dimensions each. attend_latent is for decode: a block
// has 16 heads of one row, and one split. attend_latent_tile is for prefill: two groups of four warps
// share the pages, go through all splits, and do for each query what the other two kernels would do.
#include "splits.cuh"

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
template <int P, int threads>
struct LineLoader {
  const u64* pages;
  i64 layer_at, w;
  Span span;

  DEVICE_MEMBER int bytes() const { return 2 * P * page_positions * (int)w; }
  DEVICE_MEMBER void operator()(u8* stage, int page) const {
    int row_chunks = w / 8;
    const u16* lines = lines_of(pages, page, layer_at);
    for (int i = threadIdx.x; i < P * page_positions * row_chunks; i += threads) {
      int line = i / row_chunks;  // of all parts
      bool real = span.has(page * page_positions + line % page_positions);
      copy16(line_chunk(stage, line, i % row_chunks, w), lines + (real ? 8 * (i64)i : 0), real);
    }
  }
};

// Which quarter of a group's positions and dimensions is this warp's.
DEVICE int quarter_of() { return warp_of() % 4; }

// A group's queries' parts, (P, 16, w) in shared memory.
template <int P>
DEVICE void put_queries(u8* to, const Queries& in, int from, i64 w) {
  for (int i = threadIdx.x % 128; i < 16 * w; i += 128) {
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
  int lane = lane_of(), position = 8 * quarter_of() + lane % 8;
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

// Gives all warps of a group the scores of all, by way of shared memory (16, 32).
DEVICE void share_scores(Scores& all, const float (&own)[4], float* shared) {
  int row = lane_of() / 4, column = lane_of() % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; i++) shared[(row + i / 2 * 8) * page_positions + 8 * quarter_of() + column + i % 2] = own[i];
  block_barrier();
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) all[n][i] = shared[(row + i / 2 * 8) * page_positions + 8 * n + column + i % 2];
}

// What a group has in shared memory: its queries, then scores.
template <int P>
struct Group {
  u8* queries;
  i64 w;

  DEVICE_MEMBER float* scores() const { return (float*)(queries + 32 * P * w); }

  // A page in shared memory joins the split, as in fold_page, by this warp's D dimensions.
  template <int D>
  DEVICE_MEMBER void fold(Warp<P, D>& state, u8* lines, int position, float scale) const {
    float own[4];
    Scores all;
    score_lines<P>(own, queries, lines, w);
    share_scores(all, own, scores());
#pragma unroll
    for (int i = 0; i < 2; i++) weigh_scores(all, state, i, mask_scores(all, state, i, position, scale));
    mix(state, all, [&](int part, int row, int chunk) {
      return line_chunk(lines, page_positions * part + row, quarter_of() * D / 8 + chunk, w);
    });
  }
};

// R is the most elements of a value. A quarter of them is a warp's.
template <int P, int R>
DEVICE void attend_latent(float* part, const float* q, const u32* start, const u32* end, const u32* pages_at,
                          const u64* pages, i64 layer_at, i64 heads, i64 c, i64 w, i64 ldq, i64 splits, float scale) {
  i64 row = blockIdx.z;
  int number = blockIdx.x, from = blockIdx.y * 16;
  Span span = split_span(start[row], end[row], number * split_positions);
  if (span.from >= span.to) return;
  Queries in = {q, start, end, row, 1, ldq, c, 0, (int)heads, R};
  LineLoader<P, 128> load = {pages + pages_at[row], layer_at, w, span};
  Group<P> group = {shared_memory() + 2 * load.bytes(), w};
  put_queries<P>(group.queries, in, from, w);
  Warp<P, R / 4> state;
  load_ranges(state, in, from);
  begin_split(state);
  each_page(span, load, [&](u8* stage, int page) { group.fold(state, stage, page * page_positions, scale); });
  Splits{part, heads, splits, R, quarter_of() * (R / 4)}.put(state, in, from, number);
}

// A tile's queries are its rows' heads, all of a row before the next row's; a block has 32 of them.
template <int P, int R>
DEVICE void attend_latent_tile(float* out, const float* q, const u32* start, const u32* end, const u32* pages_at,
                               const u64* pages, const u32* tile, i64 layer_at, i64 heads, i64 c, i64 w, i64 rank,
                               i64 ldq, i64 ldout, float scale) {
  const u32* t = tile + 4 * blockIdx.y;
  i64 first = t[1], rows = t[2], block = 32 * (i64)blockIdx.x, last = (block + 31) / heads;
  if (block >= rows * heads) return;
  Queries in = {q, start, end, first, rows, ldq, c, 0, (int)heads, rank};
  i64 begin = block / heads;
  Span span = span_of(start, end, first + begin, (last < rows ? last : rows - 1) - begin + 1);
  LineLoader<P, 256> load = {pages + pages_at[first], layer_at, w, span};
  int number = warp_of() / 4, from = block + 16 * number;
  Group<P> group = {shared_memory() + 2 * load.bytes() + number * (32 * P * w + 2048), w};
  put_queries<P>(group.queries, in, from, w);
  Warp<P, R / 4> state;
  Total<R / 4, OwnSums<R / 4>> total;
  load_ranges(state, in, from);
  begin_split(state);
  total.begin();
  each_page(span, load, [&](u8* stage, int page) {
    group.fold(state, stage, page * page_positions, scale);
    total.end_page(state, span, page);
  });
  total.put(out, in, from, quarter_of() * (R / 4), 0, ldout);
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
  }                                                                                                               \
  KERNEL(256)                                                                                                     \
  attend_latent_tile_p##P##_r##R(float* out, const float* q, const u32* start, const u32* end,                    \
                                 const u32* pages_at, const u64* pages, const u32* tile, i64 layer_at,            \
                                 i64 heads, i64 c, i64 w, i64 rank, i64 ldq, i64 ldout, float scale) {            \
    attend_latent_tile<P, R>(out, q, start, end, pages_at, pages, tile, layer_at, heads, c, w, rank, ldq, ldout,  \
                             scale);                                                                              \
  }
ATTEND_LATENT(1, 64)
ATTEND_LATENT(1, 512)
ATTEND_LATENT(2, 64)
ATTEND_LATENT(2, 512)
