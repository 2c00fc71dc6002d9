// Attention of 16 queries of one KV head over pages, by one warp. A query is a (row, query
// head); queries that share keys are the 16 rows of an mma.
//
// A query's numbers depend on its own range of positions alone: a page that it does not see
// leaves its maximum, sum and accumulator as they are.
#pragma once
#include "pages.cuh"

// The queries of a block: those of rows first to first + rows, of one KV head.
struct Queries {
  const float* q;
  const u32 *start, *end;
  i64 first, rows, ldq, c;
  int kv, share;  // the KV head, and how many query heads share it
  i64 width;      // of a result

  DEVICE_MEMBER bool real(int i) const { return i < rows * share; }
  DEVICE_MEMBER i64 row(int i) const { return first + i / share; }
  DEVICE_MEMBER i64 head(int i) const { return i64(kv) * share + i % share; }
  DEVICE_MEMBER float at(int i, int dim) const {
    return real(i) && dim < c ? q[row(i) * ldq + head(i) * c + dim] : 0.f;
  }
};

// What a warp's lane has of queries l/4 and l/4 + 8 of its 16.
template <int P, int W>
struct Warp {
  u32 q[W / 16][P][4];     // queries as first operand
  int start[2], end[2];    // the positions that they see; none where there is no query
  float max[2], sum[2];    // of the split so far
  float acc[W / 8][4];
};

template <int P, int W>
DEVICE void begin_split(Warp<P, W>& w) {
#pragma unroll
  for (int i = 0; i < 2; i++) w.max[i] = -infinity(), w.sum[i] = 0;
#pragma unroll
  for (int n = 0; n < W / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) w.acc[n][i] = 0;
}

// Two neighbours of a query as parts.
template <int P>
DEVICE void pair_parts(u32 (&parts)[P], float low, float high) {
  u16 a[P], b[P];
  split(low, a), split(high, b);
#pragma unroll
  for (int p = 0; p < P; p++) parts[p] = pair_of(a[p], b[p]);
}

// What the queries from number `from` of the block on see.
template <int P, int W>
DEVICE void load_ranges(Warp<P, W>& w, const Queries& in, int from) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int query = from + lane_of() / 4 + 8 * i;
    bool real = in.real(query);
    w.start[i] = real ? in.start[in.row(query)] : 0;
    w.end[i] = real ? in.end[in.row(query)] : 0;
  }
}

// Takes the queries from number `from` of the block on.
template <int P, int W>
DEVICE void load_queries(Warp<P, W>& w, const Queries& in, int from) {
  int lane = lane_of();
  load_ranges(w, in, from);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int query = from + lane / 4 + 8 * i;
#pragma unroll
    for (int s = 0; s < 2 * (W / 16); s++) {
      u32 parts[P];
      int dim = 8 * s + lane % 4 * 2;
      pair_parts(parts, in.at(query, dim), in.at(query, dim + 1));
#pragma unroll
      for (int p = 0; p < P; p++) w.q[s / 2][p][i + s % 2 * 2] = parts[p];
    }
  }
}

// The positions that a block goes through.
struct Span {
  int from, to;
  DEVICE_MEMBER int first_page() const { return from / page_positions; }
  DEVICE_MEMBER int end_page() const { return (to + page_positions - 1) / page_positions; }
  DEVICE_MEMBER bool has(int position) const { return position >= from && position < to; }
};

// What of [from, to) lies in the split that begins at a position.
DEVICE Span split_span(int from, int to, int first) {
  return Span{from < first ? first : from, to > first + split_positions ? first + split_positions : to};
}

// Loads pages into two stages by turns, by load(stage, page), and calls fold(stage, page) for each.
template <class Load, class Fold>
DEVICE void each_page(Span span, const Load& load, const Fold& fold) {
  u8* stages = shared_memory();
  for (int page = span.first_page() - 1; page < span.end_page(); page++) {
    copies_wait<0>();
    block_barrier();  // the page has come for all, and all have left the other stage
    int next = page + 1;
    if (next < span.end_page()) load(stages + next % 2 * load.bytes(), next);
    copies_commit();
    if (page >= span.first_page()) fold(stages + page % 2 * load.bytes(), page);
  }
}

// A chunk of 16 bytes of a page's row in shared memory, so that eight rows of one column
// fall into different banks.
template <int W>
DEVICE u8* page_chunk(u8* plane, int row, int chunk) {
  int turn = W == 32 ? row / 2 % 4 : row % 8;
  return plane + row * (2 * W) + 16 * (chunk ^ turn);
}

// Begins to load pages of a head, by `threads` threads. Positions that nobody sees become zeros: what lies
// there may be no number.
template <int P, int W, int threads>
struct Loader {
  const u64* pages;
  i64 layer_at;
  int kv;
  Span span;

  DEVICE_MEMBER int bytes() const { return 4 * P * page_positions * W; }
  DEVICE_MEMBER void operator()(u8* stage, int page) const {
    const int row_chunks = W / 8, plane_chunks = page_positions * row_chunks;
    const u16* head = head_of<P>(pages, page, layer_at, kv, W);
    for (int i = threadIdx.x; i < 2 * P * plane_chunks; i += threads) {
      int plane = i / plane_chunks, row = i / row_chunks % page_positions, chunk = i % row_chunks;
      bool real = span.has(page * page_positions + row);
      copy16(page_chunk<W>(stage + plane * page_positions * 2 * W, row, chunk), head + (real ? 8 * (i64)i : 0), real);
    }
  }
};

typedef float Scores[4][4];  // of 32 positions, eight in each

// Scores of a page. Of products of parts those below the last part's size are left out.
template <int P, int W>
DEVICE void score_page(Scores& scores, const Warp<P, W>& w, u8* keys) {
  int lane = lane_of();
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) scores[n][i] = 0;
#pragma unroll
  for (int s = 0; s < W / 16; s++)
#pragma unroll
    for (int kp = 0; kp < P; kp++)
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        u32 b[4];
        int row = 8 * n + lane % 8 + lane / 16 * 8;
        load_matrices(b, page_chunk<W>(keys + kp * page_positions * 2 * W, row, 2 * s + lane / 8 % 2));
#pragma unroll
        for (int qp = 0; qp < P - kp; qp++) {
          mma(scores[n], w.q[s][qp], b[0], b[1]);
          mma(scores[n + 1], w.q[s][qp], b[2], b[3]);
        }
      }
}

// The largest of a query's four lanes, and their sum.
DEVICE float quad_max(float v) {
  v = larger(v, lane_xor(v, 1));
  return larger(v, lane_xor(v, 2));
}
DEVICE float quad_sum(float v) {
  v += lane_xor(v, 1);
  return v + lane_xor(v, 2);
}

// Scales the scores of query i of two, and takes away what it does not see.
template <int P, int W>
DEVICE float mask_scores(Scores& scores, const Warp<P, W>& w, int i, int position, float scale) {
  float top = -infinity();
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int j = 0; j < 2; j++) {
      int at = position + 8 * n + lane_of() % 4 * 2 + j;
      float& s = scores[n][2 * i + j];
      s = at >= w.start[i] && at < w.end[i] ? s * scale : -infinity();
      top = larger(top, s);
    }
  return quad_max(top);
}

// Turns the scores of query i into e^(score-max), and fits sum and accumulator to a new maximum.
template <int P, int W>
DEVICE void weigh_scores(Scores& scores, Warp<P, W>& w, int i, float top) {
  top = larger(w.max[i], top);
  float before = top == -infinity() ? 1.f : exp32(w.max[i] - top), sum = 0;
#pragma unroll
  for (int n = 0; n < 4; n++)
#pragma unroll
    for (int j = 0; j < 2; j++) {
      float& s = scores[n][2 * i + j];
      s = s == -infinity() ? 0.f : exp32(s - top);
      sum += s;
    }
  w.max[i] = top;
  w.sum[i] = fused(w.sum[i], before, quad_sum(sum));
#pragma unroll
  for (int n = 0; n < W / 8; n++) w.acc[n][2 * i] *= before, w.acc[n][2 * i + 1] *= before;
}

// The weights of 16 positions as first operand: where a result's elements lie is where an
// operand's are wanted.
template <int P>
DEVICE void weights_of(u32 (&a)[P][4], const Scores& scores, int n) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    u32 parts[P];
    const float* from = &scores[n + i / 2][i % 2 * 2];
    pair_parts(parts, from[0], from[1]);
#pragma unroll
    for (int p = 0; p < P; p++) a[p][i] = parts[p];
  }
}

// acc += weights · values of a page: rows(part, row, chunk) is where 8 of a position's W elements lie.
template <int P, int W, class Rows>
DEVICE void mix(Warp<P, W>& w, const Scores& scores, const Rows& rows) {
  int lane = lane_of();
#pragma unroll
  for (int t = 0; t < 2; t++) {
    u32 a[P][4];
    weights_of(a, scores, 2 * t);
#pragma unroll
    for (int vp = 0; vp < P; vp++)
#pragma unroll
      for (int n = 0; n < W / 8; n += 2) {
        u32 b[4];
        load_transposed(b, rows(vp, 16 * t + lane % 16, n + lane / 16));
#pragma unroll
        for (int ap = 0; ap < P - vp; ap++) {
          mma(w.acc[n], a[ap], b[0], b[1]);
          mma(w.acc[n + 1], a[ap], b[2], b[3]);
        }
      }
  }
}

// A page in shared memory joins the split (FlashAttention, arXiv:2205.14135, algorithm 1).
template <int P, int W>
DEVICE void fold_page(Warp<P, W>& w, u8* stage, int position, float scale) {
  Scores scores;
  score_page(scores, w, stage);
#pragma unroll
  for (int i = 0; i < 2; i++) weigh_scores(scores, w, i, mask_scores(scores, w, i, position, scale));
  u8* values = stage + P * page_positions * 2 * W;
  mix(w, scores, [&](int part, int row, int chunk) {
    return page_chunk<W>(values + part * page_positions * 2 * W, row, chunk);
  });
}
