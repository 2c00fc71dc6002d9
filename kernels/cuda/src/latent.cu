// Attention over a latent cache (multi-head latent attention, DeepSeek-V2, arXiv:2405.04434,
// section 2.1.2): all query heads share one line a position, whose first elements are the value.
// Queries come multiplied by their heads' key expansions, as kernels/cpu explains.
//
// attend_latent is for decode: a block is a group, and has 16 heads of one row, and one split.
// attend_latent_tile is for prefill: two groups share the pages, go through all splits, and do for each
// query what attend_latent and attend_merge would do.
#include "group.cuh"

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
  group.put_queries(in, from);
  Warp<P, R / 4> state;
  load_ranges(state, in, from);
  begin_split(state);
  each_page(span, load, [&](u8* stage, int page) { group.fold(state, stage, stage, page * page_positions, scale); });
  Splits{part, heads, splits, R, quarter_of() * (R / 4)}.put(state, in, from, number);
}

// A tile's queries are its rows' heads, all of a row before the next row's; a block has 32 of them.
template <int P, int R>
DEVICE void attend_latent_tile(float* out, const float* q, const u32* start, const u32* end, const u32* pages_at,
                               const u64* pages, const u32* tile, i64 layer_at, i64 heads, i64 c, i64 w, i64 rank,
                               i64 ldq, i64 ldout, float scale) {
  const u32* t = tile + 4 * blockIdx.y;
  Queries in = {q, start, end, t[1], t[2], ldq, c, 0, (int)heads, rank};
  int block = 32 * blockIdx.x;
  if (!in.real(block)) return;
  LineLoader<P, 256> load = {pages + pages_at[in.first], layer_at, w, queries_span(in, block, 32)};
  fold_groups<P, R / 4>(out, in, block, load, w, 0, 0, ldout, scale);
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
