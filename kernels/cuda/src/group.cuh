// Attention of 16 queries by four warps, where one has too few registers: a group. Of each page a warp
// makes the scores of eight positions; then all have the weights of all 32, and mix a quarter of the
// dimensions each. Rows of keys and values have w elements, a multiple of 64, and their parts follow
// each other.
#pragma once
#include "splits.cuh"

// A chunk of a line of w elements in shared memory; w is a multiple of 64.
DEVICE u8* line_chunk(u8* plane, int row, int chunk, i64 w) { return plane + row * (2 * w) + 16 * (chunk ^ row % 8); }

// Which quarter of a group's positions and dimensions is this warp's.
DEVICE int quarter_of() { return warp_of() % 4; }

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

// What a group has in shared memory: its queries' parts (P, 16, w), then scores.
template <int P>
struct Group {
  u8* queries;
  i64 w;

  DEVICE_MEMBER float* scores() const { return (float*)(queries + 32 * P * w); }
  DEVICE_MEMBER i64 bytes() const { return 32 * P * w + 2048; }

  // Puts the queries from number `from` of the block on.
  DEVICE_MEMBER void put_queries(const Queries& in, int from) const {
    for (int i = threadIdx.x % 128; i < 16 * w; i += 128) {
      int query = i / w, dim = i % w;
      u16 part[P];
      split(in.at(from + query, dim), part);
#pragma unroll
      for (int p = 0; p < P; p++) ((u16*)line_chunk(queries, 16 * p + query, dim / 8, w))[dim % 8] = part[p];
    }
  }

  // A page in shared memory joins the split, as in fold_page, by this warp's D dimensions.
  template <int D>
  DEVICE_MEMBER void fold(Warp<P, D>& state, u8* keys, u8* values, int position, float scale) const {
    float own[4];
    Scores all;
    score_lines<P>(own, queries, keys, w);
    share_scores(all, own, scores());
#pragma unroll
    for (int i = 0; i < 2; i++) weigh_scores(all, state, i, mask_scores(all, state, i, position, scale));
    mix(state, all, [&](int part, int row, int chunk) {
      return line_chunk(values, page_positions * part + row, quarter_of() * D / 8 + chunk, w);
    });
  }
};

// The positions that some of a block's queries see.
DEVICE Span queries_span(const Queries& in, i64 from, i64 count) {
  i64 first = from / in.share, last = (from + count - 1) / in.share;
  return span_of(in.start, in.end, in.first + first, (last < in.rows ? last : in.rows - 1) - first + 1);
}

// Two groups' queries, from number `block` on, through all splits; values begin so many bytes into a
// stage. D is a warp's dimensions.
template <int P, int D, class Load>
DEVICE void fold_groups(float* out, const Queries& in, int block, const Load& load, i64 w, int values,
                        const float* sinks, i64 ldout, float scale) {
  int number = warp_of() / 4, from = block + 16 * number;
  Group<P> group = {shared_memory() + 2 * load.bytes(), w};
  group.queries += number * group.bytes();
  group.put_queries(in, from);
  Warp<P, D> state;
  Total<D, OwnSums<D>> total;
  load_ranges(state, in, from);
  begin_split(state);
  total.begin();
  each_page(load.span, load, [&](u8* stage, int page) {
    group.fold(state, stage, stage + values, page * page_positions, scale);
    total.end_page(state, load.span, page);
  });
  total.put(out, in, from, quarter_of() * D, sinks, ldout);
}
