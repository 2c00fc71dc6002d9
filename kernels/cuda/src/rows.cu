// What is done to rows between products: norms, rotary positions, and small sums.
#include "numbers.cuh"

// The sum of a block's v, the same in all threads: lanes of a warp first, then warps in order.
template <int threads>
DEVICE float block_sum(float v) {
  v = warp_sum(v);
  if (threads == 32) return v;
  __shared__ float warps[threads / 32];
  block_barrier();  // the last sum has been read
  if (lane_of() == 0) warps[warp_of()] = v;
  block_barrier();
  float sum = 0;
  for (int w = 0; w < threads / 32; w++) sum += warps[w];
  return sum;
}

// weight · (x / sqrt(mean(x²) + eps)) of one unit; dst may be x.
template <int threads>
DEVICE void normalise(float* dst, const float* x, const float* weight, i64 n, float eps) {
  float squares = 0;
  for (i64 i = threadIdx.x; i < n; i += threads) squares = fused(x[i], x[i], squares);
  float inv = 1.f / root(block_sum<threads>(squares) / n + eps);
  for (i64 i = threadIdx.x; i < n; i += threads) {
    float v = x[i] * inv;
    dst[i] = weight ? weight[i] * v : v;
  }
}

KERNEL(256) rms_norm(float* dst, const float* x, const float* weight, i64 n, i64 units, i64 ldx, i64 lddst, float eps) {
  i64 row = blockIdx.x / units, at = blockIdx.x % units * n;
  normalise<256>(dst + row * lddst + at, x + row * ldx + at, weight, n, eps);
}

KERNEL(32) head_norm(float* dst, const float* x, const float* weight, i64 n, i64 units, i64 ldx, i64 lddst, float eps) {
  i64 row = blockIdx.x / units, at = blockIdx.x % units * n;
  normalise<32>(dst + row * lddst + at, x + row * ldx + at, weight, n, eps);
}

// weight · (x − mean) / sqrt(variance + eps) + bias; dst may be x.
KERNEL(256)
layer_norm(float* dst, const float* x, const float* weight, const float* bias, i64 n, i64 ldx, i64 lddst, float eps) {
  x += blockIdx.x * ldx, dst += blockIdx.x * lddst;
  float sum = 0, squares = 0;
  for (i64 i = threadIdx.x; i < n; i += 256) sum += x[i];
  float mean = block_sum<256>(sum) / n;
  for (i64 i = threadIdx.x; i < n; i += 256) squares = fused(x[i] - mean, x[i] - mean, squares);
  float inv = 1.f / root(block_sum<256>(squares) / n + eps);
  for (i64 i = threadIdx.x; i < n; i += 256) dst[i] = fused((x[i] - mean) * inv, weight[i], bias[i]);
}

KERNEL(256) add_rows(float* dst, const float* a, i64 n) {
  i64 i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) dst[i] += a[i];
}

// A row's sum of its slots in order, each rounded first, if rows between services are bf16.
KERNEL(256) sum_slots(float* dst, const float* slots, const u32* first, const u32* at, i64 d, i64 rounded) {
  i64 column = blockIdx.y * 256ll + threadIdx.x;
  if (column >= d) return;
  u32 from = first[blockIdx.x], to = first[blockIdx.x + 1];
  float sum = 0;
  for (u32 slot = from; slot < to; slot++) {
    float v = slots[at[slot] * d + column];
    if (rounded) v = from_bf16(to_bf16(v));
    sum = slot == from ? v : sum + v;  // not added to zero: -0 stays what it is
  }
  dst[blockIdx.x * d + column] = sum;
}

KERNEL(256) activate_rows(float* x, i64 n, i64 activation) {
  i64 i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) x[i] = activated(activation, x[i]);
}

KERNEL(128) gate_rows(float* x, const float* logit, i64 d) {
  float by = sigmoid(logit[blockIdx.x]);
  for (i64 i = threadIdx.x; i < d; i += 128) x[blockIdx.x * d + i] *= by;
}

KERNEL(128) scale_rows(float* x, const float* by, i64 ldx, i64 n, float clip) {
  float* row = x + blockIdx.x * ldx;
  for (i64 i = threadIdx.x; i < n; i += 128) {
    float v = by ? row[i] * by[blockIdx.x] : row[i];
    row[i] = clip > 0 ? smaller(larger(v, -clip), clip) : v;
  }
}

// Rotates a head: elements 2i and 2i+1 turn together, or i and i + dim/2 (RoFormer,
// arXiv:2104.09864, section 3.2.2).
KERNEL(32)
rope(float* x, const float* cosines, const float* sines, const u32* angle, i64 ldx, i64 c, i64 dim, i64 pairs) {
  float* head = x + blockIdx.y * ldx + blockIdx.x * c;
  i64 half = dim / 2, at = angle[blockIdx.y] * half;
  for (i64 i = threadIdx.x; i < half; i += 32) {
    float *low = head + (pairs ? 2 * i : i), *high = pairs ? low + 1 : low + half;
    float a = *low, b = *high, cos = cosines[at + i], sin = sines[at + i];
    *low = a * cos - b * sin;
    *high = b * cos + a * sin;
  }
}
