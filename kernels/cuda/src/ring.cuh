// The product of matmul.cuh on sm_90a: one thread keeps a ring of stages filled by bulk copies, groups of
// four warps multiply what is there by wgmma.
//
// Matrices lie in tiles and planes by pieces (README.md, "Memory"), as wgmma wants them in shared memory.
// So a tile of 64 features and 64 columns is one copy, and so are a part of all tokens' 64 columns. These
// begin at a multiple of 8 rows, as chunks are exchanged by it: before the first token there may be up to
// 7 others, which is why a tile of T tokens has products of T + 8. What is in a sum of no token of the
// tile, or of no feature of the matrix, is never looked at.
#pragma once
#include "feed.cuh"
#include "hopper.cuh"

#ifdef HOPPER
enum { tile_features = 64, tile_bytes = tile_features * piece_bytes, block_columns = 32 };

// Registers of a thread that fills and of one that multiplies, where many sums need more than there are for all alike;
// and of a processor.
enum { filling_registers = 40, multiplying_registers = 232, all_registers = 65536 };

// How a block is cut: G groups of warps have H times 64 features each.
template <int P, int T, int G, int H, int S, int B>
struct RingCut {
  enum {
    parts = P,
    groups = G,
    high = H,
    wide = T / 8 + 1,
    tiles = G * H,
    features = tiles * tile_features,
    stages = S,
    threads = 128 * G + (H > 1 ? 128 : 32),  // registers are shared out by 128
    blocks = B,  // of a processor at a time
    part_bytes = 8 * wide * piece_bytes,
    stage_bytes = tiles * tile_bytes + P * part_bytes,
  };
  typedef float Sums[high][wide][4];
  // Who takes registers waits until there are so many; a kernel begins with a multiple of 8 of each thread.
  static_assert(high == 1 || 128 * (filling_registers + groups * multiplying_registers) <= all_registers / threads / 8 * 8 * threads,
                "groups of warps take more registers than a block has");
};

template <int P, int T>
struct RingVariant;
template <int P>
struct RingVariant<P, 8> : RingCut<P, 8, 1, 1, 8, 2> {};
template <int P>
struct RingVariant<P, 32> : RingCut<P, 32, 2, 1, 4, 2> {};
template <int P>
struct RingVariant<P, 128> : RingCut<P, 128, 2, 2, 5 - P, 1> {};

// Stages, and how many were passed. Each has a signal that it is full and one that it is empty.
template <class C>
struct Ring {
  u8* bytes;
  u64 *full, *empty;
  u32 passed;

  DEVICE_MEMBER Ring() : bytes(shared_operands()), passed(0) {
    full = (u64*)(bytes + C::stages * C::stage_bytes), empty = full + C::stages;
    if (threadIdx.x == 0) {
      for (int i = 0; i < C::stages; i++) signal_make(full + i, 1), signal_make(empty + i, 4 * C::groups);
      signals_made();
    }
    block_barrier();
  }
  DEVICE_MEMBER int stage() const { return passed % C::stages; }
  DEVICE_MEMBER u32 parity() const { return passed / C::stages & 1; }
  DEVICE_MEMBER u8* weights(int stage) const { return bytes + stage * C::stage_bytes; }
  DEVICE_MEMBER u8* part(int stage, int p) const { return weights(stage) + C::tiles * tile_bytes + p * C::part_bytes; }
};

// What a block multiplies: some tiles of the matrix, from one on, by a tile of tokens.
struct Share {
  const u8* matrix;
  const u16* planes;
  i64 pieces, plane, first, count;  // count: how many tiles the matrix has from the first one on
  Tile tile;
  DEVICE_MEMBER int before() const { return tile.row % chunks; }
};

// Fills stages with a share's pieces, by one thread.
template <class C>
DEVICE void fill(Ring<C>& ring, const Share& s) {
  int tiles = s.count < C::tiles ? (int)s.count : C::tiles;
  u32 part_bytes = (s.before() + s.tile.rows) * piece_bytes;
  const u8* planes = (const u8*)s.planes + (s.tile.row - s.before()) * (i64)piece_bytes;
  for (i64 i = 0; i < s.pieces; i++, ring.passed++) {
    int stage = ring.stage();
    signal_wait(ring.empty + stage, ring.parity() ^ 1);
    signal_expect(ring.full + stage, tiles * tile_bytes + C::parts * part_bytes);
    for (int t = 0; t < tiles; t++)
      bulk_copy(ring.weights(stage) + t * tile_bytes, s.matrix + ((s.first + t) * s.pieces + i) * tile_bytes, tile_bytes,
                ring.full + stage);
    for (int p = 0; p < C::parts; p++)
      bulk_copy(ring.part(stage, p), planes + (p * s.pieces + i) * s.plane * piece_bytes, part_bytes, ring.full + stage);
  }
}

// Adds a stage: 16 columns after the other, of these part after part, which is the order of sums.
template <class C>
DEVICE void add_stage(typename C::Sums& sums, Ring<C>& ring, int stage) {
  u64 weights = operand(ring.weights(stage) + warp_of() / 4 * C::high * tile_bytes), tokens = operand(ring.part(stage, 0));
#pragma unroll
  for (int column = 0; column < piece_bytes; column += block_columns)
#pragma unroll
    for (int p = 0; p < C::parts; p++)
#pragma unroll
      for (int m = 0; m < C::high; m++)
        wgmma(sums[m], operand_behind(weights, m * tile_bytes + column), operand_behind(tokens, p * C::part_bytes + column));
}

// Sums over all pieces. A stage is empty when the products with it are over, of which one stage's are
// under way while the next one is looked for.
template <class C>
DEVICE void drain(typename C::Sums& sums, Ring<C>& ring, i64 pieces) {
  for (i64 i = 0; i < pieces; i++, ring.passed++) {
    int stage = ring.stage();
    signal_wait(ring.full + stage, ring.parity());
    products_begin();
    add_stage(sums, ring, stage);
    products_commit();
    products_wait<1>();
    if (i > 0 && lane_of() == 0) signal_arrive(ring.empty + (stage + C::stages - 1) % C::stages);
  }
  products_wait<0>();
  products_there(sums);
  if (lane_of() == 0) signal_arrive(ring.empty + (ring.passed + C::stages - 1) % C::stages);
}

// The same as each_pair. Tokens come 8 at a time, as many as the tile has.
template <class C, class Out>
DEVICE void each_ring_pair(const typename C::Sums& sums, int before, int rows, const Out& out) {
  int lane = lane_of(), token = lane % 4 * 2 - before;
  int row = warp_of() / 4 * C::high * tile_features + warp_of() % 4 * 16 + lane / 4;
#pragma unroll
  for (int m = 0; m < C::high; m++) {
    auto at = out.at(row + tile_features * m);
#pragma unroll
    for (int n = 0; n < C::wide; n++)
      if (8 * n < before + rows) at(token + 8 * n, sums[m][n]);
  }
}

// Calls work(share) for those of a block: blocks take turns with the shares of all tiles of tokens and of
// a matrix of so many rows, filled up to whole tiles.
template <class C, class Find, class Work>
DEVICE void each_share(i64 rows, i64 tiles, const Find& find, const Work& work) {
  i64 shares = (rows + C::features - 1) / C::features * tiles;
  for (i64 i = blockIdx.x; i < shares; i += gridDim.x) {
    Place place = place_of(i, shares, tiles);
    Share s = find(place.token);
    s.first = place.feature * C::tiles, s.count = rows / tile_features - s.first;
    if (s.tile.rows > 0) work(s);
  }
}

// find(number) is the share of a tile of tokens, out(share) where its sums go. The thread that fills is
// ahead by the ring, also of the next share.
template <class C, class Find, class Out>
DEVICE void multiply_shares(i64 rows, i64 tiles, const Find& find, const Out& out) {
  Ring<C> ring;
  if (threadIdx.x >= 128 * C::groups) {
    if constexpr (C::high > 1) registers_keep<filling_registers>();
    if (threadIdx.x > 128 * C::groups) return;
    each_share<C>(rows, tiles, find, [&](const Share& s) { fill(ring, s); });
  } else {
    if constexpr (C::high > 1) registers_take<multiplying_registers>();
    each_share<C>(rows, tiles, find, [&](const Share& s) {
      typename C::Sums sums = {};
      drain<C>(sums, ring, s.pieces);
      each_ring_pair<C>(sums, s.before(), s.tile.rows, out(s));
    });
  }
}
#endif
