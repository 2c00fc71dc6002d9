// How splits' results are written and joined.
#pragma once
#include "attend.cuh"

// What is left of sums when their maximum rises: first what they were, then what joins them.
struct Rise {
  float before, now, max;
};

DEVICE Rise rise_of(float max, float other) {
  float top = larger(max, other);
  if (top == -infinity()) return Rise{1, 0, top};
  return Rise{exp32(max - top), exp32(other - top), top};
}

DEVICE float joined(Rise r, float a, float b) { return fused(a, r.before, b * r.now); }

// Where splits' results go: (rows, heads, splits, width + 2), the maximum and the sum behind a query's
// accumulators. Of those a warp has W from one on.
struct Splits {
  float* part;
  i64 heads, splits, width;
  int first;

  template <int P, int W>
  DEVICE_MEMBER void put(const Warp<P, W>& w, const Queries& in, int from, int split) const {
    int lane = lane_of();
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int query = from + lane / 4 + 8 * i;
      if (!in.real(query)) continue;
      float* to = part + ((in.row(query) * heads + in.head(query)) * splits + split) * (width + 2);
#pragma unroll
      for (int n = 0; n < W / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) to[first + 8 * n + lane % 4 * 2 + j] = w.acc[n][2 * i + j];
      if (first == 0 && lane % 4 == 0) to[width] = w.max[i], to[width + 1] = w.sum[i];
    }
  }
};

// Where sums of 16 queries by W dimensions lie: in shared memory, each with the lane that uses it, or
// in registers.
struct SharedSums {
  float* sums;
  DEVICE_MEMBER float& at(int n, int i) { return sums[(4 * n + i) * 32 + lane_of()]; }
};
template <int W>
struct OwnSums {
  float sums[W / 8][4];
  DEVICE_MEMBER float& at(int n, int i) { return sums[n][i]; }
};

// Splits joined so far, of the two queries that a lane has a share of.
template <int W, class Store>
struct Total {
  float max[2], sum[2];
  Store store;

  DEVICE_MEMBER void begin() {
#pragma unroll
    for (int i = 0; i < 2; i++) max[i] = -infinity(), sum[i] = 0;
#pragma unroll
    for (int n = 0; n < W / 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) store.at(n, i) = 0;
  }

  template <int P>
  DEVICE_MEMBER void join(const Warp<P, W>& w, int split) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      if (w.end[i] <= split || w.start[i] >= split + split_positions) continue;  // it sees nothing of it
      Rise r = rise_of(max[i], w.max[i]);
      max[i] = r.max, sum[i] = joined(r, sum[i], w.sum[i]);
#pragma unroll
      for (int n = 0; n < W / 8; n++)
#pragma unroll
        for (int j = 2 * i; j < 2 * i + 2; j++) store.at(n, j) = joined(r, store.at(n, j), w.acc[n][j]);
    }
  }

  // Joins the split that a page is the last one of, if it is.
  template <int P>
  DEVICE_MEMBER void end_page(Warp<P, W>& w, Span span, int page) {
    if ((page + 1) % split_pages != 0 && page + 1 != span.end_page()) return;
    join(w, page / split_pages * split_positions);
    begin_split(w);
  }

  // Writes the queries from number `from` on, the warp's dimensions being those from `first` on.
  DEVICE_MEMBER void put(float* out, const Queries& in, int from, int first, const float* sinks, i64 ldout) {
    int lane = lane_of();
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int query = from + lane / 4 + 8 * i;
      if (!in.real(query)) continue;
      Rise r = sinks ? rise_of(max[i], sinks[in.head(query)]) : Rise{1, 0, 0};
      float inv = 1.f / (sinks ? joined(r, sum[i], 1) : sum[i]);
      float* to = out + in.row(query) * ldout + in.head(query) * in.width;
#pragma unroll
      for (int n = 0; n < W / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
          int dim = first + 8 * n + lane % 4 * 2 + j;
          float v = store.at(n, 2 * i + j);
          if (dim < in.width) to[dim] = (sinks ? v * r.before : v) * inv;
        }
    }
  }
};

// All positions that rows see.
DEVICE Span span_of(const u32* start, const u32* end, i64 first, i64 rows) {
  Span span = {(int)start[first], (int)end[first]};
  for (i64 i = first + 1; i < first + rows; i++) {
    if ((int)start[i] < span.from) span.from = start[i];
    if ((int)end[i] > span.to) span.to = end[i];
  }
  return span;
}
