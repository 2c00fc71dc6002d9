// Weights that follow from a seed, as the processor makes them (pkg/compute/model): an element is one of 4096 numbers, chosen by
// 12 bits of a counter-based generator, so that each thread finds its own.
#include "machine.cuh"

enum { random_threads = 256, random_choices = 4096, chunk_columns = 8, random_chunks = random_choices / chunk_columns };

struct alignas(16) Chunk {
  u16 of[chunk_columns];
};

// Number i of splitmix64.
DEVICE u64 splitmix(u64 stream, i64 i) {
  u64 z = stream + (u64)(i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

// Elements of a tensor of n: four share a number of the generator, but for the last n % 4.
struct Elements {
  u64 stream, number;
  i64 shared, have;
  DEVICE_MEMBER Elements(u64 stream, i64 n) : stream(stream), number(0), shared(n / 4 * 4), have(-1) {}
  // Which of the choices element i is.
  DEVICE_MEMBER u32 choice(i64 i) {
    i64 at = i < shared ? i / 4 : shared / 4 + i - shared;
    if (at != have) number = splitmix(stream, at), have = at;
    return (number >> (i < shared ? i % 4 * 12 : 0)) % random_choices;
  }
};

// Where 8 columns of a matrix lie, in chunks: its rows one behind the other, or in tiles, every 8 rows of which
// are those of one tensor of so many.
DEVICE i64 chunk_at(i64 row, i64 column, i64 wide, i64 tensors, i64 tensor) {
  if (!tensors) return row * wide + column;
  i64 r = (row / 8 * tensors + tensor) * 8 + row % 8;
  return ((r / 64 * (wide / 8) + column / 8) * 64 + r % 64) * 8 + (column % 8 ^ r % 8);
}

KERNEL(random_threads)
random_weights(Chunk* to, const Chunk* numbers, u64 stream, i64 n, i64 k, i64 kp, i64 tensors, i64 tensor) {
  __shared__ Chunk table[random_chunks];
  for (int i = threadIdx.x; i < random_chunks; i += random_threads) table[i] = numbers[i];
  block_barrier();
  i64 wide = kp / chunk_columns, all = (tensors ? (n + 63) / 64 * 64 : n) * wide;
  Elements elements(stream, n * k);
  for (i64 i = blockIdx.x * (i64)random_threads + threadIdx.x; i < all; i += gridDim.x * (i64)random_threads) {
    i64 row = i / wide, column = i % wide;
    Chunk out;
#pragma unroll
    for (int c = 0; c < chunk_columns; c++) {
      i64 at = column * chunk_columns + c;
      out.of[c] = 0;
      if (row >= n || at >= k) continue;
      u32 choice = elements.choice(row * k + at);
      out.of[c] = table[choice / chunk_columns].of[choice % chunk_columns];
    }
    to[chunk_at(row, column, wide, tensors, tensor)] = out;
  }
}
