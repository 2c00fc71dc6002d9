// Feed-forward networks of experts, and products with any other matrix. README.md has
// the layouts and the parameters.
#include "matmul.cuh"

// Rows gathered, scaled and split into planes.
template <int P>
DEVICE void split_row(u16* planes, const float* x, const u32* source, const float* scale, i64 k, i64 kp, i64 ldx,
                      i64 plane) {
  i64 row = blockIdx.x, from = source ? source[row] : row;
  float by = scale ? scale[row] : 1.f;
  for (i64 i = threadIdx.x; i < kp; i += 128) {
    float v = i < k ? x[from * ldx + i] : 0.f;
    u16 part[P];
    split(scale ? v * by : v, part);
#pragma unroll
    for (int p = 0; p < P; p++) planes[(p * plane + row) * kp + i] = part[p];
  }
}

#define ROWS_SPLIT(P)                                                                                             \
  KERNEL(128)                                                                                                     \
  rows_split_p##P(u16* planes, const float* x, const u32* source, const float* scale, i64 k, i64 kp, i64 ldx,     \
                  i64 plane) {                                                                                    \
    split_row<P>(planes, x, source, scale, k, kp, ldx, plane);                                                    \
  }
ROWS_SPLIT(1)
ROWS_SPLIT(2)

// A group's matrix and bias.
DEVICE const u8* matrix_of(const u64* groups, u32 group) { return (const u8*)groups[2 * group]; }
DEVICE const float* bias_of(const u64* groups, u32 group) { return (const float*)groups[2 * group + 1]; }
DEVICE float bias_at(const float* bias, i64 i, bool real) { return bias && real ? bias[i] : 0.f; }

// Where activations go.
template <int P>
struct Inner {
  u16* act;
  i64 row, fp, plane;
  DEVICE_MEMBER void put(i64 feature, int token, float v) const {
    u16 part[P];
    split(v, part);
#pragma unroll
    for (int p = 0; p < P; p++) act[(p * plane + row + token) * fp + feature] = part[p];
  }
};

DEVICE float activated(i64 kind, float gate, float up, float limit) {
  return kind == clamped_swiglu_kind ? clamped_swiglu(gate, up, limit) : swiglu(gate, up);
}

// act = activation(gate·x + bias, up·x + bias). Columns from f on come out as zeros.
template <class W, int P, int T>
DEVICE void experts_in(u16* act, const u16* x, const u32* tile, const u64* groups, i64 f, i64 fp, i64 kp, i64 act_plane,
                       i64 x_plane, i64 tiles, i64 kind, float limit) {
  typedef Variant<W, P, T> C;
  Place place = place_of(blockIdx.x, gridDim.x, tiles);
  Tile t = tile_at(tile, place.token);
  if (t.rows == 0) return;
  i64 first = place.feature * (C::features / 2);
  typename C::Sums sums = {};
  multiply<C>(sums, Operands<Gated>{matrix_of(groups, t.group), x + t.row * kp, kp, x_plane, t.rows, {first, f}});
  const float* bias = bias_of(groups, t.group);
  Inner<P> inner = {act, t.row, fp, act_plane};
  each_pair<C>(sums, [&](int row, int token, float gate, float up) {
    i64 feature = first + row / 16 * 8 + row % 16;
    if (feature >= fp || token >= t.rows) return;
    gate += bias_at(bias, feature, feature < f);
    up += bias_at(bias, f + feature, feature < f);
    inner.put(feature, token, activated(kind, gate, up, limit));
  });
}

// The same without a gate.
template <class W, int P, int T>
DEVICE void experts_up(u16* act, const u16* x, const u32* tile, const u64* groups, i64 f, i64 fp, i64 kp, i64 act_plane,
                       i64 x_plane, i64 tiles, i64 kind, float) {
  typedef Variant<W, P, T> C;
  Place place = place_of(blockIdx.x, gridDim.x, tiles);
  Tile t = tile_at(tile, place.token);
  if (t.rows == 0) return;
  i64 first = place.feature * C::features;
  typename C::Sums sums = {};
  multiply<C>(sums, Operands<Plain>{matrix_of(groups, t.group), x + t.row * kp, kp, x_plane, t.rows, {first, f}});
  const float* bias = bias_of(groups, t.group);
  Inner<P> inner = {act, t.row, fp, act_plane};
  each_pair<C>(sums, [&](int row, int token, float low, float high) {
    i64 feature = first + row;
    if (token >= t.rows) return;
    if (feature < fp) inner.put(feature, token, activated(kind, low + bias_at(bias, feature, feature < f)));
    feature += 8;
    if (feature < fp) inner.put(feature, token, activated(kind, high + bias_at(bias, feature, feature < f)));
  });
}

// out = (W·x + bias) · scale of each row, added to what is there if wanted.
struct Outer {
  float* out;
  const float* bias;
  i64 n, ldout, add;
  DEVICE_MEMBER void put(i64 row, float by, bool scaled, i64 feature, float v) const {
    if (feature >= n) return;
    v += bias_at(bias, feature, true);
    if (scaled) v *= by;
    float* to = out + row * ldout + feature;
    *to = add ? *to + v : v;
  }
};

template <class W, int P, int T>
DEVICE void project(float* out, const u16* x, const u32* tile, const u64* groups, const u32* dest, const float* scale,
                    i64 n, i64 kp, i64 x_plane, i64 ldout, i64 tiles, i64 add) {
  typedef Variant<W, P, T> C;
  Place place = place_of(blockIdx.x, gridDim.x, tiles);
  Tile t = tile_at(tile, place.token);
  if (t.rows == 0) return;
  i64 first = place.feature * C::features;
  typename C::Sums sums = {};
  multiply<C>(sums, Operands<Plain>{matrix_of(groups, t.group), x + t.row * kp, kp, x_plane, t.rows, {first, n}});
  Outer outer = {out, bias_of(groups, t.group), n, ldout, add};
  each_pair<C>(sums, [&](int row, int token, float low, float high) {
    if (token >= t.rows) return;
    i64 from = t.row + token, to = dest ? dest[from] : from;
    float by = scale ? scale[from] : 1.f;
    outer.put(to, by, scale, first + row, low);
    outer.put(to, by, scale, first + row + 8, high);
  });
}

#define EXPERTS(NAME, FUNCTION, W, P, T)                                                                          \
  KERNEL(T == 128 ? 256 : 128)                                                                                    \
  NAME##_p##P##_t##T(u16* act, const u16* x, const u32* tile, const u64* groups, i64 f, i64 fp, i64 kp,           \
                     i64 act_plane, i64 x_plane, i64 tiles, i64 activation, float limit) {                        \
    FUNCTION<W, P, T>(act, x, tile, groups, f, fp, kp, act_plane, x_plane, tiles, activation, limit);             \
  }
#define PROJECT(NAME, W, P, T)                                                                                    \
  KERNEL(T == 128 ? 256 : 128)                                                                                    \
  NAME##_p##P##_t##T(float* out, const u16* x, const u32* tile, const u64* groups, const u32* dest,               \
                     const float* scale, i64 n, i64 kp, i64 x_plane, i64 ldout, i64 tiles, i64 add) {             \
    project<W, P, T>(out, x, tile, groups, dest, scale, n, kp, x_plane, ldout, tiles, add);                       \
  }
#define TILES(DEFINE, ...) DEFINE(__VA_ARGS__, 8) DEFINE(__VA_ARGS__, 32) DEFINE(__VA_ARGS__, 128)
#define PARTS(DEFINE, ...) TILES(DEFINE, __VA_ARGS__, 1) TILES(DEFINE, __VA_ARGS__, 2)

PARTS(EXPERTS, experts_in, experts_in, Bf16)
PARTS(EXPERTS, experts_in_fp8, experts_in, Fp8)
PARTS(EXPERTS, experts_in_mxfp4, experts_in, Mxfp4)
PARTS(EXPERTS, experts_up, experts_up, Bf16)
PARTS(PROJECT, project, Bf16)
PARTS(PROJECT, project_fp8, Fp8)
PARTS(PROJECT, project_mxfp4, Mxfp4)
