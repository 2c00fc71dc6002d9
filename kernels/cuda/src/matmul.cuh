// The product of some rows of a matrix with some rows of planes, summed in one order.
//
// Matrices' rows (features) are the first operand of an mma and tokens the second, so that
// few tokens waste least: eight columns rather than sixteen rows. A block has F features and
// T tokens, and goes through K in pieces of 64 columns.
#pragma once
#include "weights.cuh"

// How a block is cut: WF by WT warps share F features of format W by T tokens of P parts.
template <class W, int P, int F, int T, int WF, int WT, int S>
struct Cut {
  typedef W Weights;
  enum {
    parts = P,
    features = F,
    tokens = T,
    token_warps = WT,
    stages = S,
    threads = 32 * WF * WT,
    high = F / WF / 16,  // a warp's results are high by wide of an mma's
    wide = T / WT / 8,
    weight_bytes = F * W::bytes,  // of a stage, before the tokens
    stage_bytes = weight_bytes + P * T * piece_bytes,
  };
  typedef float Sums[high][wide][4];
};

template <class W, int P, int T>
struct Variant;
template <class W, int P>
struct Variant<W, P, 8> : Cut<W, P, 64, 8, 4, 1, 4> {};
template <class W, int P>
struct Variant<W, P, 32> : Cut<W, P, 64, 32, 4, 1, 4> {};
template <class W, int P>
struct Variant<W, P, 128> : Cut<W, P, 128, 128, 4, 2, 3> {};

// The matrix's row that is row i of a block, or -1 beyond its end; and all its rows.
struct Plain {
  i64 first, n;
  DEVICE_MEMBER i64 count() const { return n; }
  DEVICE_MEMBER i64 row(int i) const { return first + i < n ? first + i : -1; }
};

// With a gate each 16 rows are 8 of the gate and the 8 of up beside them: then the lane that
// has a gate's sum in elements 0 and 1 has up's of the same feature in elements 2 and 3.
struct Gated {
  i64 first, f;
  DEVICE_MEMBER i64 count() const { return 2 * f; }
  DEVICE_MEMBER i64 row(int i) const {
    i64 feature = first + i / 16 * 8 + i % 8;
    return feature < f ? feature + (i % 16 < 8 ? 0 : f) : -1;
  }
};

// A tile of the table.
struct Tile {
  u32 group, row;
  int rows;
  DEVICE_MEMBER bool has(int token) const { return (u32)token < (u32)rows; }
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
  const u8* matrix;   // (N, kp), and scales behind it
  const u16* planes;  // from the tile's first row on
  i64 kp, plane;
  int tokens;  // how many rows there are
  Rows rows;
};

// Begins to load the piece of a number.
template <class C, class Rows>
DEVICE void load_piece(u8* stage, const Operands<Rows>& in, i64 number) {
  typedef typename C::Weights W;
  const int row_chunks = W::bytes / 16;
  i64 row_bytes = in.kp / piece * W::bytes;
  for (int i = threadIdx.x; i < C::features * row_chunks; i += C::threads) {
    i64 row = in.rows.row(i / row_chunks);
    const u8* from = in.matrix + (row < 0 ? 0 : row * row_bytes + number * W::bytes + 16 * (i % row_chunks));
    copy16(weights_at<W>(stage, i / row_chunks, i % row_chunks), from, row >= 0);
  }
  u8* planes = stage + C::weight_bytes;
  for (int i = threadIdx.x; i < C::parts * C::tokens * chunks; i += C::threads) {
    int token = i / chunks % C::tokens;
    bool real = token < in.tokens;
    i64 row = i64(i / chunks / C::tokens) * in.plane + token;
    const u16* from = in.planes + (real ? row * in.kp + number * piece + 8 * (i % chunks) : 0);
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
    u8* plane = stage + C::weight_bytes + p * C::tokens * piece_bytes;
    load_tokens(b, plane, warp_token<C>(), chunk);
#pragma unroll
    for (int m = 0; m < C::high; m++)
#pragma unroll
      for (int n = 0; n < C::wide; n++) mma(sums[m][n], a[m], b[n][0], b[n][1]);
  }
}

// Adds pieces to a warp's sums, one after the other.
template <class C, class Rows, class W = typename C::Weights>
struct Adder;

template <class C, class Rows>
struct Adder<C, Rows, Bf16> {
  DEVICE_MEMBER explicit Adder(const Operands<Rows>&) {}
  DEVICE_MEMBER void add(typename C::Sums& sums, u8* stage, i64) {
#pragma unroll
    for (int chunk = 0; chunk < chunks; chunk += 2) add_block<C>(sums, stage, chunk);
  }
};

// A lane's rows of the matrix, -1 beyond its end.
template <class C, class Rows>
DEVICE i64 lane_row(const Operands<Rows>& in, int m, int i) {
  return in.rows.row(warp_feature<C>() + 16 * m + lane_of() / 4 + 8 * i);
}

// Adds a piece of codes. Half by half, whose two blocks a lane has the tokens' columns of in 16
// bytes; part after part.
template <class C>
DEVICE void add_codes(typename C::Sums& sums, u8* stage, const u32 (&scales)[C::high][2]) {
  typedef typename C::Weights W;
  int row = lane_of() / 4, quarter = lane_of() % 4;
  u32 codes[C::high][2][W::words];
#pragma unroll
  for (int m = 0; m < C::high; m++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      load_words(codes[m][i], stage + (warp_feature<C>() + 16 * m + row + 8 * i) * W::bytes + quarter * (4 * W::words));
#pragma unroll
  for (int half = 0; half < 2; half++) {
    u32 a[2][C::high][4];
#pragma unroll
    for (int b = 0; b < 2; b++)
#pragma unroll
      for (int m = 0; m < C::high; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) widen(a[b][m][i], a[b][m][i + 2], codes[m][i], 2 * half + b, scales[m][i]);
#pragma unroll
    for (int p = 0; p < C::parts; p++) {
      u8* plane = stage + C::weight_bytes + p * C::tokens * piece_bytes;
#pragma unroll
      for (int n = 0; n < C::wide; n++) {
        u32 x[4];
        load_words(x, chunk_of(plane, warp_token<C>() + 8 * n + row, 2 * quarter + half));
#pragma unroll
        for (int b = 0; b < 2; b++)
#pragma unroll
          for (int m = 0; m < C::high; m++) mma(sums[m][n], a[b][m], x[2 * b], x[2 * b + 1]);
      }
    }
  }
}

// Codes with a power of two for 32 columns, which lies in the row's registers a piece ahead.
template <class C, class Rows>
struct Adder<C, Rows, Mxfp4> {
  const Operands<Rows>& in;
  u32 next[C::high][2];

  DEVICE_MEMBER explicit Adder(const Operands<Rows>& of) : in(of) { load(0); }
  DEVICE_MEMBER void load(i64 number) {
    const u8* scales = in.matrix + in.rows.count() * (in.kp / 2) + (2 * number + lane_of() % 4 / 2) * in.rows.count();
#pragma unroll
    for (int m = 0; m < C::high; m++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        i64 row = lane_row<C>(in, m, i);
        next[m][i] = row < 0 ? 0 : scales[row];
      }
  }
  DEVICE_MEMBER void add(typename C::Sums& sums, u8* stage, i64 number) {
    u32 now[C::high][2];
#pragma unroll
    for (int m = 0; m < C::high; m++)
#pragma unroll
      for (int i = 0; i < 2; i++) now[m][i] = scale_pair(next[m][i]);
    if (number + 1 < in.kp / piece) load(number + 1);
    add_codes<C>(sums, stage, now);
  }
};

// Codes with a factor for 128 columns, two pieces: their sum is multiplied by it.
template <class C, class Rows>
struct Adder<C, Rows, Fp8> {
  const Operands<Rows>& in;
  typename C::Sums part;
  float factor[C::high][2];

  DEVICE_MEMBER explicit Adder(const Operands<Rows>& of) : in(of) {}
  DEVICE_MEMBER void begin(i64 number) {
    const float* factors = (const float*)(in.matrix + in.rows.count() * in.kp) + number / 2 * in.rows.count();
#pragma unroll
    for (int m = 0; m < C::high; m++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        i64 row = lane_row<C>(in, m, i);
        factor[m][i] = row < 0 ? 0.f : factors[row];
#pragma unroll
        for (int n = 0; n < C::wide; n++) part[m][n][2 * i] = part[m][n][2 * i + 1] = 0;
      }
  }
  DEVICE_MEMBER void add(typename C::Sums& sums, u8* stage, i64 number) {
    const u32 none[C::high][2] = {};
    if (number % 2 == 0) begin(number);
    add_codes<C>(part, stage, none);
    if (number % 2 == 0 && number + 1 < in.kp / piece) return;
#pragma unroll
    for (int m = 0; m < C::high; m++)
#pragma unroll
      for (int n = 0; n < C::wide; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[m][n][i] = fused(part[m][n][i], factor[m][i / 2], sums[m][n][i]);
  }
};

// Sums over all pieces. Stages - 1 of them are on their way while one is added; the barrier tells
// that a piece has come for all, and that all have left the stage that is filled next.
template <class C, class Rows>
DEVICE void multiply(typename C::Sums& sums, const Operands<Rows>& in) {
  u8* stages = shared_memory();
  i64 pieces = in.kp / piece;
  Adder<C, Rows> adder(in);
  for (int i = 0; i < C::stages - 1; i++) {
    if (i < pieces) load_piece<C>(stages + i * C::stage_bytes, in, i);
    copies_commit();
  }
  for (i64 i = 0; i < pieces; i++) {
    copies_wait<C::stages - 2>();
    block_barrier();
    i64 next = i + C::stages - 1;
    if (next < pieces) load_piece<C>(stages + next % C::stages * C::stage_bytes, in, next);
    copies_commit();
    adder.add(sums, stages + i % C::stages * C::stage_bytes, i);
  }
}

// Gives out.at(feature row) what a lane has of each result: see feed.cuh.
template <class C, class Out>
DEVICE void each_pair(const typename C::Sums& sums, const Out& out) {
  int lane = lane_of(), row = warp_feature<C>() + lane / 4, token = warp_token<C>() + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < C::high; m++) {
    auto at = out.at(row + 16 * m);
#pragma unroll
    for (int n = 0; n < C::wide; n++) at(token + 8 * n, sums[m][n]);
  }
}
