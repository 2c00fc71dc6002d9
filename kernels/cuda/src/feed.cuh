// What is before and behind the products of experts, whatever multiplies: rows become planes, and sums
// become activations or results.
#pragma once
#include "matmul.cuh"

// Where an element of planes lies: README.md, "Planes".
struct ByRows {
  i64 kp, plane;
  DEVICE_MEMBER i64 at(int part, i64 row, i64 column) const { return (part * plane + row) * kp + column; }
};

struct ByPieces {
  i64 kp, plane;
  DEVICE_MEMBER i64 at(int part, i64 row, i64 column) const {
    i64 line = (part * (kp / piece) + column / piece) * plane + row;
    return line * piece + (column / 8 % chunks ^ row % chunks) * 8 + column % 8;
  }
};

template <int P, class Order>
struct Planes {
  u16* to;
  Order order;
  DEVICE_MEMBER void put(i64 row, i64 column, float v) const {
    u16 part[P];
    split(v, part);
#pragma unroll
    for (int p = 0; p < P; p++) to[order.at(p, row, column)] = part[p];
  }
};

// Rows gathered, scaled and split into planes.
template <int P, class Order>
DEVICE void split_row(u16* planes, const float* x, const u32* source, const float* scale, i64 k, i64 kp, i64 ldx,
                      i64 plane) {
  Planes<P, Order> to = {planes, {kp, plane}};
  i64 row = blockIdx.x, from = source ? source[row] : row;
  float by = scale ? scale[row] : 1.f;
  for (i64 i = threadIdx.x; i < kp; i += 128) {
    float v = i < k ? x[from * ldx + i] : 0.f;
    to.put(row, i, scale ? v * by : v);
  }
}

#define ROWS(NAME, ORDER, P)                                                                                      \
  KERNEL(128)                                                                                                     \
  NAME##_p##P(u16* planes, const float* x, const u32* source, const float* scale, i64 k, i64 kp, i64 ldx,         \
              i64 plane) {                                                                                        \
    split_row<P, ORDER>(planes, x, source, scale, k, kp, ldx, plane);                                             \
  }

// A group's matrix and bias.
DEVICE const u8* matrix_of(const u64* groups, u32 group) { return (const u8*)groups[2 * group]; }
DEVICE const float* bias_of(const u64* groups, u32 group) { return (const float*)groups[2 * group + 1]; }
DEVICE float bias_at(const float* bias, i64 i, bool real) { return bias && real ? bias[i] : 0.f; }

DEVICE float activated(i64 kind, float gate, float up, float limit) {
  return kind == clamped_swiglu_kind ? clamped_swiglu(gate, up, limit) : swiglu(gate, up);
}

// What becomes of two sums of a token that lie 8 rows apart, rows counted from the block's first one.
//
// act = activation(gate·x + bias, up·x + bias). Columns from f on come out as zeros.
template <int P, class Order>
struct GatedOut {
  Planes<P, Order> act;
  Tile tile;
  const float* bias;
  i64 first, f, fp, kind;
  float limit;
  DEVICE_MEMBER void operator()(int row, int token, float gate, float up) const {
    i64 feature = first + row / 16 * 8 + row % 16;
    if (feature >= fp || (u32)token >= (u32)tile.rows) return;
    gate += bias_at(bias, feature, feature < f);
    up += bias_at(bias, f + feature, feature < f);
    act.put(tile.row + token, feature, activated(kind, gate, up, limit));
  }
};

// The same without a gate.
template <int P, class Order>
struct PlainOut {
  Planes<P, Order> act;
  Tile tile;
  const float* bias;
  i64 first, f, fp, kind;
  DEVICE_MEMBER void put(i64 feature, int token, float v) const {
    if (feature < fp) act.put(tile.row + token, feature, activated(kind, v + bias_at(bias, feature, feature < f)));
  }
  DEVICE_MEMBER void operator()(int row, int token, float low, float high) const {
    if ((u32)token >= (u32)tile.rows) return;
    put(first + row, token, low);
    put(first + row + 8, token, high);
  }
};

// out = (W·x + bias) · scale of each row, added to what is there if wanted.
struct RowsOut {
  float* out;
  Tile tile;
  const float* bias;
  const u32* dest;
  const float* scale;
  i64 first, n, ldout, add;
  DEVICE_MEMBER void put(i64 row, float by, i64 feature, float v) const {
    if (feature >= n) return;
    v += bias_at(bias, feature, true);
    if (scale) v *= by;
    float* to = out + row * ldout + feature;
    *to = add ? *to + v : v;
  }
  DEVICE_MEMBER void operator()(int row, int token, float low, float high) const {
    if ((u32)token >= (u32)tile.rows) return;
    i64 from = tile.row + token, to = dest ? dest[from] : from;
    float by = scale ? scale[from] : 1.f;
    put(to, by, first + row, low);
    put(to, by, first + row + 8, high);
  }
};

#define TILES(DEFINE, ...) DEFINE(__VA_ARGS__, 8) DEFINE(__VA_ARGS__, 32) DEFINE(__VA_ARGS__, 128)
#define PARTS(DEFINE, ...) TILES(DEFINE, __VA_ARGS__, 1) TILES(DEFINE, __VA_ARGS__, 2)
