// The product of some rows of a matrix with some rows of planes, summed in one order.
//
// Matrices' rows (features) are the first operand of an mma and tokens the second, so that
// few tokens waste least: eight columns rather than sixteen rows. A block has F features and
// T tokens, and goes through K in pieces of 64 elements: 128 bytes of each row, which lie
// in shared memory with their 16-byte chunks exchanged so that eight rows of one
// column fall into different banks.
#pragma once
#include "numbers.cuh"

enum { piece = 64, piece_bytes = 2 * piece, chunks = piece_bytes / 16 };

// How a block is cut: WF by WT warps share F features by T tokens of P parts.
template <int P, int F, int T, int WF, int WT, int S>
struct Cut {
  enum {
    parts = P,
    features = F,
    tokens = T,
    token_warps = WT,
    stages = S,
    threads = 32 * WF * WT,
    high = F / WF / 16,  // a warp's results are high by wide of an mma's
    wide = T / WT / 8,
    stage_bytes = (F + P * T) * piece_bytes,
  };
  typedef float Sums[high][wide][4];
};

template <int P, int T>
struct Variant;
template <int P>
struct Variant<P, 8> : Cut<P, 64, 8, 4, 1, 4> {};
template <int P>
struct Variant<P, 32> : Cut<P, 64, 32, 4, 1, 4> {};
template <int P>
struct Variant<P, 128> : Cut<P, 128, 128, 4, 2, P == 3 ? 2 : 3> {};

// The matrix's row that is row i of a block, or -1 beyond its end.
struct Plain {
  i64 first, n;
  DEVICE_MEMBER i64 row(int i) const { return first + i < n ? first + i : -1; }
};

// With a gate each 16 rows are 8 of the gate and the 8 of up beside them: then the lane that
// has a gate's sum in elements 0 and 1 has up's of the same feature in elements 2 and 3.
struct Gated {
  i64 first, f;
  DEVICE_MEMBER i64 row(int i) const {
    i64 feature = first + i / 16 * 8 + i % 8;
    return feature < f ? feature + (i % 16 < 8 ? 0 : f) : -1;
  }
};

// A tile of the table.
struct Tile {
  u32 group, row;
  int rows;
};

DEVICE Tile tile_at(const u32* table, i64 i) { return Tile{table[4 * i], table[4 * i + 1], (int)table[4 * i + 2]}; }

// Which tile of features and which tile of tokens a block has: eight tiles of tokens take turns
// with each tile of features, so that both are read from the cache.
struct Place {
  i64 feature, token;
};

DEVICE Place place_of(i64 block, i64 blocks, i64 tiles) {
  i64 across = blocks / tiles, band = block / (8 * across), within = block % (8 * across);
  i64 width = tiles - 8 * band < 8 ? tiles - 8 * band : 8;
  return Place{within / width, 8 * band + within % width};
}

template <class Rows>
struct Operands {
  const u16* matrix;  // (N, kp)
  const u16* planes;  // from the tile's first row on
  i64 kp, plane;
  int tokens;  // how many rows there are
  Rows rows;
};

DEVICE u8* chunk_of(u8* tile, int row, int chunk) { return tile + row * piece_bytes + 16 * (chunk ^ row % chunks); }

// Begins to load the piece from column k on.
template <class C, class Rows>
DEVICE void load_piece(u8* stage, const Operands<Rows>& in, i64 k) {
  for (int i = threadIdx.x; i < C::features * chunks; i += C::threads) {
    i64 row = in.rows.row(i / chunks);
    const u16* from = in.matrix + (row < 0 ? 0 : row * in.kp + k + 8 * (i % chunks));
    copy16(chunk_of(stage, i / chunks, i % chunks), from, row >= 0);
  }
  u8* planes = stage + C::features * piece_bytes;
  for (int i = threadIdx.x; i < C::parts * C::tokens * chunks; i += C::threads) {
    int token = i / chunks % C::tokens;
    bool real = token < in.tokens;
    i64 row = i64(i / chunks / C::tokens) * in.plane + token;
    const u16* from = in.planes + (real ? row * in.kp + k + 8 * (i % chunks) : 0);
    copy16(chunk_of(planes, i / chunks, i % chunks), from, real);
  }
}

// The 16 by 16 elements of a warp's feature rows from a chunk on.
DEVICE void load_features(u32 (&a)[4], u8* stage, int row, int chunk) {
  int lane = lane_of();
  load_matrices(a, chunk_of(stage, row + lane % 16, chunk + lane / 16));
}

// The elements of wide times 8 tokens from a chunk on, two tiles of 8 at a time.
template <int wide>
DEVICE void load_tokens(u32 (&b)[wide][2], u8* planes, int row, int chunk) {
  int lane = lane_of();
  if constexpr (wide == 1) load_matrices(b[0], chunk_of(planes, row + lane % 8, chunk + lane / 8 % 2));
#pragma unroll
  for (int n = 0; n + 1 < wide; n += 2) {
    u32 two[4];
    load_matrices(two, chunk_of(planes, row + 8 * n + lane % 8 + lane / 16 * 8, chunk + lane / 8 % 2));
    b[n][0] = two[0], b[n][1] = two[1], b[n + 1][0] = two[2], b[n + 1][1] = two[3];
  }
}

// The first feature row and the first token of a warp.
template <class C>
DEVICE int warp_feature() {
  return warp_of() / C::token_warps * C::high * 16;
}
template <class C>
DEVICE int warp_token() {
  return warp_of() % C::token_warps * C::wide * 8;
}

// Adds 16 columns: part after part, which is the order of sums.
template <class C>
DEVICE void add_block(typename C::Sums& sums, u8* stage, int chunk) {
  u32 a[C::high][4];
#pragma unroll
  for (int m = 0; m < C::high; m++) load_features(a[m], stage, warp_feature<C>() + 16 * m, chunk);
#pragma unroll
  for (int p = 0; p < C::parts; p++) {
    u32 b[C::wide][2];
    u8* plane = stage + (C::features + p * C::tokens) * piece_bytes;
    load_tokens(b, plane, warp_token<C>(), chunk);
#pragma unroll
    for (int m = 0; m < C::high; m++)
#pragma unroll
      for (int n = 0; n < C::wide; n++) mma(sums[m][n], a[m], b[n][0], b[n][1]);
  }
}

// Sums over all pieces. Stages - 1 of them are on their way while one is added; the barrier tells
// that a piece has come for all, and that all have left the stage that is filled next.
template <class C, class Rows>
DEVICE void multiply(typename C::Sums& sums, const Operands<Rows>& in) {
  u8* stages = shared_memory();
  i64 pieces = in.kp / piece;
  for (int i = 0; i < C::stages - 1; i++) {
    if (i < pieces) load_piece<C>(stages + i * C::stage_bytes, in, i * piece);
    copies_commit();
  }
  for (i64 i = 0; i < pieces; i++) {
    copies_wait<C::stages - 2>();
    block_barrier();
    i64 next = i + C::stages - 1;
    if (next < pieces) load_piece<C>(stages + next % C::stages * C::stage_bytes, in, next * piece);
    copies_commit();
    u8* stage = stages + i % C::stages * C::stage_bytes;
#pragma unroll
    for (int chunk = 0; chunk < chunks; chunk += 2) add_block<C>(sums, stage, chunk);
  }
}

// Calls out(feature row, token, sums) for each pair of elements that lie 8 rows apart.
template <class C, class Out>
DEVICE void each_pair(const typename C::Sums& sums, const Out& out) {
  int lane = lane_of(), row = warp_feature<C>() + lane / 4, token = warp_token<C>() + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < C::high; m++)
#pragma unroll
    for (int n = 0; n < C::wide; n++)
#pragma unroll
      for (int i = 0; i < 2; i++) out(row + 16 * m, token + 8 * n + i, sums[m][n][i], sums[m][n][i + 2]);
}
