// Attention over pages. attend_split and attend_merge are for decode: a block of one
// warp has one split of one row. attend_tile is for prefill: four warps share the pages of
// up to 64 queries, and do for each what the other two would do.
#include "splits.cuh"

// Writes a row's keys and values of one head into its page.
template <int P>
DEVICE void store_row(const float* k, const float* v, const u32* position, const u32* pages_at, const u64* pages,
                      i64 layer_at, i64 ld, i64 c, i64 w) {
  i64 h = blockIdx.x, row = blockIdx.y, at = position[row];
  u16* head = head_of<P>(pages, pages_at[row] + at / page_positions, layer_at, h, w) + at % page_positions * w;
  for (i64 i = threadIdx.x; i < w; i += 32) {
    u16 key[P], value[P];
    split(i < c ? k[row * ld + h * c + i] : 0.f, key);
    split(i < c ? v[row * ld + h * c + i] : 0.f, value);
#pragma unroll
    for (int p = 0; p < P; p++) head[p * plane_of(w) + i] = key[p], head[(P + p) * plane_of(w) + i] = value[p];
  }
}

#define KV_STORE(P)                                                                                               \
  KERNEL(32)                                                                                                      \
  kv_store_p##P(const float* k, const float* v, const u32* position, const u32* pages_at, const u64* pages,       \
                i64 layer_at, i64 ld, i64 c, i64 w) {                                                             \
    store_row<P>(k, v, position, pages_at, pages, layer_at, ld, c, w);                                            \
  }
KV_STORE(1)
KV_STORE(2)

template <int P, int W>
DEVICE void attend_split(float* part, const float* q, const u32* start, const u32* end, const u32* pages_at,
                         const u64* pages, i64 layer_at, i64 heads, i64 kv_heads, i64 c, i64 ldq, i64 splits,
                         float scale) {
  i64 row = blockIdx.z;
  int share = heads / kv_heads, blocks = (share + 15) / 16, from = blockIdx.y % blocks * 16;
  int number = blockIdx.x, first = number * split_positions;
  Span span = split_span(start[row], end[row], first);
  if (span.from >= span.to) return;
  Queries in = {q, start, end, row, 1, ldq, c, (int)(blockIdx.y / blocks), share, c};
  Warp<P, W> w;
  load_queries(w, in, from);
  begin_split(w);
  Loader<P, W, 32> load = {pages + pages_at[row], layer_at, in.kv, span};
  each_page(span, load, [&](u8* stage, int page) { fold_page(w, stage, page * page_positions, scale); });
  Splits{part, heads, splits, W, 0}.put(w, in, from, number);
}

// A dimension of a query: its splits joined in order, the sink last, and divided by the sum.
DEVICE float merged(const float* parts, i64 width, i64 dim, int first, int end, const float* sink) {
  float max = -infinity(), sum = 0, acc = 0;
  for (int s = first; s < end; s++) {
    const float* one = parts + s * (width + 2);
    Rise r = rise_of(max, one[width]);
    max = r.max, sum = joined(r, sum, one[width + 1]), acc = joined(r, acc, one[dim]);
  }
  if (sink) {
    Rise r = rise_of(max, *sink);
    sum = joined(r, sum, 1), acc *= r.before;
  }
  return acc * (1.f / sum);
}

template <int W>
DEVICE void attend_merge(float* out, const float* part, const u32* start, const u32* end, const float* sinks, i64 heads,
                         i64 c, i64 ldout, i64 splits) {
  i64 head = blockIdx.x, row = blockIdx.y, dim = threadIdx.x;
  if (dim >= c) return;
  const float* parts = part + (row * heads + head) * splits * (W + 2);
  int first = start[row] / split_positions, last = (end[row] + split_positions - 1) / split_positions;
  if (start[row] >= end[row]) return;
  out[row * ldout + head * c + dim] = merged(parts, W, dim, first, last, sinks ? sinks + head : 0);
}

template <int P, int W>
DEVICE void attend_tile(float* out, const float* q, const u32* start, const u32* end, const u32* pages_at,
                        const u64* pages, const u32* tile, const float* sinks, i64 layer_at, i64 heads, i64 kv_heads,
                        i64 c, i64 ldq, i64 ldout, float scale) {
  const u32* t = tile + 4 * blockIdx.y;
  i64 first = t[1], rows = t[2];
  if (rows == 0) return;
  Queries in = {q, start, end, first, rows, ldq, c, (int)blockIdx.x, (int)(heads / kv_heads), c};
  Span span = span_of(start, end, first, rows);
  Warp<P, W> w;
  Total<W, SharedSums> total;
  load_queries(w, in, warp_of() * 16);
  begin_split(w);
  total.store.sums = (float*)(shared_memory() + 256 * P * W) + warp_of() * 16 * W;
  total.begin();
  Loader<P, W, 128> load = {pages + pages_at[first], layer_at, in.kv, span};
  each_page(span, load, [&](u8* stage, int page) {
    fold_page(w, stage, page * page_positions, scale);
    total.end_page(w, span, page);
  });
  total.put(out, in, warp_of() * 16, 0, sinks, ldout);
}

#define ATTEND(P, W)                                                                                              \
  KERNEL(32)                                                                                                      \
  attend_split_p##P##_w##W(float* part, const float* q, const u32* start, const u32* end, const u32* pages_at,    \
                           const u64* pages, i64 layer_at, i64 heads, i64 kv_heads, i64 c, i64 ldq, i64 splits,   \
                           float scale) {                                                                         \
    attend_split<P, W>(part, q, start, end, pages_at, pages, layer_at, heads, kv_heads, c, ldq, splits, scale);   \
  }                                                                                                               \
  KERNEL(128)                                                                                                     \
  attend_tile_p##P##_w##W(float* out, const float* q, const u32* start, const u32* end, const u32* pages_at,      \
                          const u64* pages, const u32* tile, const float* sinks, i64 layer_at, i64 heads,         \
                          i64 kv_heads, i64 c, i64 ldq, i64 ldout, float scale) {                                 \
    attend_tile<P, W>(out, q, start, end, pages_at, pages, tile, sinks, layer_at, heads, kv_heads, c, ldq, ldout, \
                      scale);                                                                                     \
  }
ATTEND(1, 32)
ATTEND(1, 64)
ATTEND(1, 128)
ATTEND(2, 32)
ATTEND(2, 64)
ATTEND(2, 128)

#define ATTEND_MERGE(W)                                                                                           \
  KERNEL(W)                                                                                                       \
  attend_merge_w##W(float* out, const float* part, const u32* start, const u32* end, const float* sinks,          \
                    i64 heads, i64 c, i64 ldout, i64 splits) {                                                    \
    attend_merge<W>(out, part, start, end, sinks, heads, c, ldout, splits);                                       \
  }
ATTEND_MERGE(32)
ATTEND_MERGE(64)
ATTEND_MERGE(128)
ATTEND_MERGE(256)
ATTEND_MERGE(512)
