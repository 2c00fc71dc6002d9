// The kernels of experts.cu for matrices of bf16 in tiles, by wgmma: README.md, "By wgmma".
#include "ring.cuh"

ROWS(rows_pieces, ByPieces, 1)
ROWS(rows_pieces, ByPieces, 2)

#ifdef HOPPER

DEVICE i64 up_to(i64 a, i64 b) { return (a + b - 1) / b * b; }

// The share of a tile of tokens; which tiles of the matrix is for multiply_shares to say.
DEVICE Share share_of(const u16* x, const u32* tile, const u64* groups, i64 kp, i64 plane, i64 token) {
  Tile t = tile_at(tile, token);
  return Share{matrix_of(groups, t.group), x, kp / piece, plane, 0, 0, t};
}

template <int P, int T>
DEVICE void experts_in_wgmma(u16* act, const u16* x, const u32* tile, const u64* groups, i64 f, i64 fp, i64 kp,
                             i64 act_plane, i64 x_plane, i64 tiles, i64 kind, float limit) {
  typedef RingVariant<P, T> C;
  multiply_shares<C>(
      2 * fp, tiles, [&](i64 token) { return share_of(x, tile, groups, kp, x_plane, token); },
      [&](const Share& s) {
        return GatedOut<P, ByPieces>{{act, {fp, act_plane}}, s.tile, bias_of(groups, s.tile.group),
                                     s.first * (tile_features / 2), f, fp, {kind, limit}};
      });
}

template <int P, int T>
DEVICE void experts_up_wgmma(u16* act, const u16* x, const u32* tile, const u64* groups, i64 f, i64 fp, i64 kp,
                             i64 act_plane, i64 x_plane, i64 tiles, i64 kind, float) {
  typedef RingVariant<P, T> C;
  multiply_shares<C>(
      fp, tiles, [&](i64 token) { return share_of(x, tile, groups, kp, x_plane, token); },
      [&](const Share& s) {
        return PlainOut<P, ByPieces>{
            {act, {fp, act_plane}}, s.tile, bias_of(groups, s.tile.group), s.first * tile_features, f, fp, kind};
      });
}

template <int P, int T>
DEVICE void project_wgmma(float* out, const u16* x, const u32* tile, const u64* groups, const u32* dest,
                          const float* scale, i64 n, i64 kp, i64 x_plane, i64 ldout, i64 tiles, i64 add) {
  typedef RingVariant<P, T> C;
  multiply_shares<C>(
      up_to(n, tile_features), tiles, [&](i64 token) { return share_of(x, tile, groups, kp, x_plane, token); },
      [&](const Share& s) {
        return RowsOut{out, s.tile, bias_of(groups, s.tile.group), dest, scale, s.first * tile_features, n, ldout, add};
      });
}

// Blocks are told too, as ptxas leaves setmaxnreg out where it does not know how many registers a kernel begins with.
#define WGMMA_EXPERTS(NAME, P, T)                                                                                 \
  KERNEL((RingVariant<P, T>::threads), (RingVariant<P, T>::blocks))                                               \
  NAME##_wgmma_p##P##_t##T(u16* act, const u16* x, const u32* tile, const u64* groups, i64 f, i64 fp, i64 kp,     \
                           i64 act_plane, i64 x_plane, i64 tiles, i64 activation, float limit) {                  \
    NAME##_wgmma<P, T>(act, x, tile, groups, f, fp, kp, act_plane, x_plane, tiles, activation, limit);            \
  }
#define WGMMA_PROJECT(NAME, P, T)                                                                                 \
  KERNEL((RingVariant<P, T>::threads), (RingVariant<P, T>::blocks))                                               \
  NAME##_wgmma_p##P##_t##T(float* out, const u16* x, const u32* tile, const u64* groups, const u32* dest,         \
                           const float* scale, i64 n, i64 kp, i64 x_plane, i64 ldout, i64 tiles, i64 add) {       \
    NAME##_wgmma<P, T>(out, x, tile, groups, dest, scale, n, kp, x_plane, ldout, tiles, add);                     \
  }

PARTS(WGMMA_EXPERTS, experts_in)
PARTS(WGMMA_EXPERTS, experts_up)
PARTS(WGMMA_PROJECT, project)
#endif
