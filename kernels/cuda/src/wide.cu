// Attention over pages of heads of up to 256 dimensions: what attend.cu has for smaller ones, by groups.
#include "group.cuh"

enum { wide = 256 };

template <int P>
DEVICE void attend_split_wide(float* part, const float* q, const u32* start, const u32* end, const u32* pages_at,
                              const u64* pages, i64 layer_at, i64 heads, i64 kv_heads, i64 c, i64 ldq, i64 splits,
                              float scale) {
  i64 row = blockIdx.z;
  int share = heads / kv_heads, blocks = (share + 15) / 16, from = blockIdx.y % blocks * 16, number = blockIdx.x;
  Span span = split_span(start[row], end[row], number * split_positions);
  if (span.from >= span.to) return;
  Queries in = {q, start, end, row, 1, ldq, c, (int)(blockIdx.y / blocks), share, c};
  Loader<P, wide, 128> load = {pages + pages_at[row], layer_at, in.kv, span};
  Group<P> group = {shared_memory() + 2 * load.bytes(), wide};
  group.put_queries(in, from);
  Warp<P, wide / 4> state;
  load_ranges(state, in, from);
  begin_split(state);
  each_page(span, load, [&](u8* stage, int page) {
    group.fold(state, stage, stage + load.bytes() / 2, page * page_positions, scale);
  });
  Splits{part, heads, splits, wide, quarter_of() * (wide / 4)}.put(state, in, from, number);
}

template <int P>
DEVICE void attend_tile_wide(float* out, const float* q, const u32* start, const u32* end, const u32* pages_at,
                             const u64* pages, const u32* tile, const float* sinks, i64 layer_at, i64 heads,
                             i64 kv_heads, i64 c, i64 ldq, i64 ldout, float scale) {
  const u32* t = tile + 4 * blockIdx.y;
  Queries in = {q, start, end, t[1], t[2], ldq, c, (int)blockIdx.x, (int)(heads / kv_heads), c};
  int block = 32 * blockIdx.z;
  if (!in.real(block)) return;
  Loader<P, wide, 256> load = {pages + pages_at[in.first], layer_at, in.kv, queries_span(in, block, 32)};
  fold_groups<P, wide / 4>(out, in, block, load, wide, load.bytes() / 2, sinks, ldout, scale);
}

#define ATTEND_WIDE(P)                                                                                            \
  KERNEL(128)                                                                                                     \
  attend_split_p##P##_w256(float* part, const float* q, const u32* start, const u32* end, const u32* pages_at,    \
                           const u64* pages, i64 layer_at, i64 heads, i64 kv_heads, i64 c, i64 ldq, i64 splits,   \
                           float scale) {                                                                         \
    attend_split_wide<P>(part, q, start, end, pages_at, pages, layer_at, heads, kv_heads, c, ldq, splits, scale); \
  }                                                                                                               \
  KERNEL(256)                                                                                                     \
  attend_tile_p##P##_w256(float* out, const float* q, const u32* start, const u32* end, const u32* pages_at,      \
                          const u64* pages, const u32* tile, const float* sinks, i64 layer_at, i64 heads,         \
                          i64 kv_heads, i64 c, i64 ldq, i64 ldout, float scale) {                                 \
    attend_tile_wide<P>(out, q, start, end, pages_at, pages, tile, sinks, layer_at, heads, kv_heads, c, ldq,      \
                        ldout, scale);                                                                            \
  }
ATTEND_WIDE(1)
ATTEND_WIDE(2)
