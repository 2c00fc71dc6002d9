// The formats of matrices, and what a lane multiplies of them: README.md, "Memory" and "Order of
// sums". Quantised weights stay as they are until a lane has them in registers, where they become
// bf16 without loss.
//
// Of a row's piece of 64 columns lane l has the 16 from 16·(l%4) on, which lie together. An mma
// wants four columns of each lane, and it does not matter which if the tokens' are the same: the
// mma number b of a piece has those from 16·(l%4) + 4b on.
#pragma once
#include "numbers.cuh"

enum { piece = 64, piece_bytes = 2 * piece, chunks = piece_bytes / 16 };

// bytes are those of a row's piece, words those that a lane has of it.
struct Bf16 {
  enum { bytes = piece_bytes };
};
struct Fp8 {
  enum { bytes = piece, words = 4 };
};
struct Mxfp4 {
  enum { bytes = piece / 2, words = 2 };
};

// A chunk of 16 bytes of a row of 128 in shared memory. Chunks are exchanged so that eight rows
// of one column fall into different banks.
DEVICE u8* chunk_of(u8* tile, int row, int chunk) { return tile + row * piece_bytes + 16 * (chunk ^ row % chunks); }

// The same of a matrix's row. Rows of less than 128 bytes lie one behind the other.
template <class W>
DEVICE u8* weights_at(u8* tile, int row, int chunk) {
  const int bytes = W::bytes;
  return bytes == piece_bytes ? chunk_of(tile, row, chunk) : tile + row * bytes + 16 * chunk;
}

// Two codes e4m3 as bf16. Sign and exponent moved to where bf16 has them are the number times
// 2^-120, also where the exponent is 0.
DEVICE u32 from_fp8(u32 two) {
  u32 apart = (two & 0xff) | (two & 0xff00) << 8;
  return pair_product((apart & 0x00800080) << 8 | (apart & 0x007f007f) << 4, 0x7b807b80);
}

// Two codes e2m1 as bf16, times a pair of scales: moved, they are the number times 2^-126.
DEVICE u32 from_fp4(u32 two, u32 scales) {
  u32 apart = (two & 0xf) | (two & 0xf0) << 12;
  return pair_product(pair_product((apart & 0x00080008) << 12 | (apart & 0x00070007) << 6, 0x7e807e80), scales);
}

// The scale 2^(e-127) as a pair of bf16, of which 2^-127 is below the normal ones.
DEVICE u32 scale_pair(u32 e) {
  u32 scale = e ? e << 7 : 0x40;
  return scale | scale << 16;
}

// A lane's four columns of block b: two of the low columns of an mma, two of the high ones.
DEVICE void widen(u32& low, u32& high, const u32 (&codes)[4], int b, u32) {
  low = from_fp8(codes[b] & 0xffff), high = from_fp8(codes[b] >> 16);
}
DEVICE void widen(u32& low, u32& high, const u32 (&codes)[2], int b, u32 scales) {
  u32 four = codes[b / 2] >> b % 2 * 16;
  low = from_fp4(four & 0xff, scales), high = from_fp4(four >> 8 & 0xff, scales);
}
