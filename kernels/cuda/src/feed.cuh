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

// What becomes of sums. at(row) is of a lane's two features, the block's row and the one 8 behind it; of that
// (token, d) is of their sums of two tokens: d[0] and d[1] of the first feature, d[2] and d[3] of the second.
// There may be no such token. Sums of both are computed side by side, as a lane has many and waits for each step.
//
// act = activation(gate·x + bias, up·x + bias). Columns from f on come out as zeros.
template <int P, class Order>
struct GatedOut {
  Planes<P, Order> act;
  Tile tile;
  const float* bias;
  i64 first, f, fp;
  Gate gate;

  struct Feature {
    const GatedOut& out;
    i64 feature;
    float gate_bias, up_bias;
    DEVICE_MEMBER void operator()(int token, const float (&d)[4]) const {
      float gate[2], up[2], below[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        gate[i] = d[i] + gate_bias, up[i] = d[i + 2] + up_bias;
        below[i] = out.gate.below(gate[i], up[i]);
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float v = gate[i] / below[i] * up[i];
        if (feature < out.fp && out.tile.has(token + i)) out.act.put(out.tile.row + token + i, feature, v);
      }
    }
  };
  DEVICE_MEMBER Feature at(int row) const {
    i64 feature = first + row / 16 * 8 + row % 16;
    return {*this, feature, bias_at(bias, feature, feature < f), bias_at(bias, f + feature, feature < f)};
  }
};

// The same without a gate.
template <int P, class Order>
struct PlainOut {
  Planes<P, Order> act;
  Tile tile;
  const float* bias;
  i64 first, f, fp, kind;

  struct Features {
    const PlainOut& out;
    i64 feature;
    float low_bias, high_bias;
    DEVICE_MEMBER void put(i64 feature, int token, float v) const {
      if (feature < out.fp && out.tile.has(token)) out.act.put(out.tile.row + token, feature, activated(out.kind, v));
    }
    DEVICE_MEMBER void operator()(int token, const float (&d)[4]) const {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        put(feature, token + i, d[i] + low_bias);
        put(feature + 8, token + i, d[i + 2] + high_bias);
      }
    }
  };
  DEVICE_MEMBER Features at(int row) const {
    i64 feature = first + row;
    return {*this, feature, bias_at(bias, feature, feature < f), bias_at(bias, feature + 8, feature + 8 < f)};
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

  struct Features {
    const RowsOut& rows;
    i64 feature;
    float low_bias, high_bias;
    DEVICE_MEMBER void put(float* row, float by, i64 feature, float v) const {
      if (feature >= rows.n) return;
      float before = rows.add ? row[feature] : -0.f;  // which changes no sum
      row[feature] = before + v * by;
    }
    DEVICE_MEMBER void operator()(int token, const float (&d)[4]) const {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        if (!rows.tile.has(token + i)) continue;
        i64 from = rows.tile.row + token + i, to = rows.dest ? rows.dest[from] : from;
        float* row = rows.out + to * rows.ldout;
        float by = rows.scale ? rows.scale[from] : 1.f;
        put(row, by, feature, d[i] + low_bias);
        put(row, by, feature + 8, d[i + 2] + high_bias);
      }
    }
  };
  DEVICE_MEMBER Features at(int row) const {
    i64 feature = first + row;
    return {*this, feature, bias_at(bias, feature, feature < n), bias_at(bias, feature + 8, feature + 8 < n)};
  }
};

#define TILES(DEFINE, ...) DEFINE(__VA_ARGS__, 8) DEFINE(__VA_ARGS__, 32) DEFINE(__VA_ARGS__, 128)
#define PARTS(DEFINE, ...) TILES(DEFINE, __VA_ARGS__, 1) TILES(DEFINE, __VA_ARGS__, 2)
