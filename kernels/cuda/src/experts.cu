// Feed-forward networks of experts, and products with any other matrix. README.md has
// the layouts and the parameters.
#include "feed.cuh"

ROWS(rows_split, ByRows, 1)
ROWS(rows_split, ByRows, 2)

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
  each_pair<C>(sums, GatedOut<P, ByRows>{{act, {fp, act_plane}}, t, bias_of(groups, t.group), first, f, fp, {kind, limit}});
}

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
  each_pair<C>(sums, PlainOut<P, ByRows>{{act, {fp, act_plane}}, t, bias_of(groups, t.group), first, f, fp, kind});
}

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
  each_pair<C>(sums, RowsOut{out, t, bias_of(groups, t.group), dest, scale, first, n, ldout, add});
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

PARTS(EXPERTS, experts_in, experts_in, Bf16)
PARTS(EXPERTS, experts_in_fp8, experts_in, Fp8)
PARTS(EXPERTS, experts_in_mxfp4, experts_in, Mxfp4)
PARTS(EXPERTS, experts_up, experts_up, Bf16)
PARTS(PROJECT, project, Bf16)
PARTS(PROJECT, project_fp8, Fp8)
PARTS(PROJECT, project_mxfp4, Mxfp4)
