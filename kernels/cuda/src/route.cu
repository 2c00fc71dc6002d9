// The choice of experts of a row by one warp. Lane l has the experts l, l + 32, and so on. Experts and the
// bits of their weights are those that pkg/compute/forward gives with kernels/cpu.
#include "numbers.cuh"

enum { softmax_topk, topk_softmax, sigmoid_topk, topk_sigmoid, sparse_mixer };

// A warp's row: score are what weights are made of, choice what experts are chosen by.
struct Row {
  float *score, *choice;
  int e;
};

// An expert and its value; id -1 is none.
struct Best {
  float v;
  int id;
};

// A higher value is better, a NaN worse than any, and of equals the lower id.
DEVICE bool above(float a, float b) { return a > b || (b != b && a == a); }
DEVICE bool better(Best a, Best b) {
  if (a.id < 0 || b.id < 0) return b.id < 0 && a.id >= 0;
  return above(a.v, b.v) || (!above(b.v, a.v) && a.id < b.id);
}

DEVICE Best warp_best(Best b) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    Best other = {lane_xor(b.v, mask), lane_xor(b.id, mask)};
    if (better(other, b)) b = other;
  }
  return b;
}

// The best expert that is not taken; taken has a bit for each of a lane's experts.
DEVICE Best next_best(const float* choice, int e, u64& taken) {
  Best best = {0, -1};
  for (int i = lane_of(); i < e; i += 32) {
    Best one = {choice[i], i};
    if (!(taken >> (i / 32) & 1) && better(one, best)) best = one;
  }
  best = warp_best(best);
  if (best.id >= 0 && best.id % 32 == lane_of()) taken |= 1ull << (best.id / 32);
  return best;
}

// The sum of n values in shared memory by 16 lanes, as kernels/cpu adds them up. The other 16 do the same.
DEVICE float sum_by_16(const float* x, int n) {
  float sum = 0;
  for (int i = lane_of() % 16; i < n; i += 16) sum += x[i];
#pragma unroll
  for (int mask = 8; mask > 0; mask /= 2) sum += lane_xor(sum, mask);
  return sum;
}

// x = e^(x-max) / Σ of n values that lanes have by turns.
DEVICE void softmax(float* x, int n) {
  float top = -infinity();
  for (int i = lane_of(); i < n; i += 32) top = larger(top, x[i]);
  top = warp_max(top);
  for (int i = lane_of(); i < n; i += 32) x[i] = exp32(x[i] - top);
  warp_barrier();
  float inv = 1.f / sum_by_16(x, n);
  for (int i = lane_of(); i < n; i += 32) x[i] *= inv;
}

// A group's score: its best expert's, or the sum of its best two.
DEVICE float group_score(const float* group, int size, bool pairs) {
  float best = -infinity(), second = -infinity();
  for (int i = 0; i < size; i++) {
    if (group[i] > best) {
      second = best, best = group[i];
    } else if (group[i] > second) {
      second = group[i];
    }
  }
  return pairs ? best + second : best;
}

// Leaves the experts outside of the best groups without a chance. Lane g has group g.
DEVICE void keep_groups(Row row, int groups, int top, bool pairs) {
  int size = row.e / groups, lane = lane_of();
  bool kept = false;
  Best own = {0, -1};
  if (lane < groups) own = Best{group_score(row.choice + lane * size, size, pairs), lane};
  for (int i = 0; i < top; i++) {
    Best best = warp_best(own);
    if (best.id == lane) kept = true, own.id = -1;
  }
  for (int i = 0; i < size && lane < groups && !kept; i++) row.choice[lane * size + i] = -infinity();
  warp_barrier();
}

// Divides the weights, slot s in lane s, by their sum in the order of slots, and scales them.
DEVICE float finished(float weight, int k, bool normalise, float scale) {
  if (normalise) {
    float sum = 1e-20f;
    for (int s = 0; s < k; s++) sum += lane_at(weight, s);
    weight /= sum;
  }
  return scale == 0 ? weight : weight * scale;
}

// SparseMixer: the best that is left, with its share among those near to it (arXiv:2409.12136,
// section 2). Choice is scratch.
DEVICE Best sparse_best(Row row, float threshold) {
  u64 taken = 0;
  Best best = next_best(row.score, row.e, taken);
  for (int i = lane_of(); i < row.e; i += 32) {
    float v = row.score[i], scale = larger(float_of(bits_of(v) & 0x7fffffffu), best.v);
    row.choice[i] = (best.v - v) / scale > threshold ? -infinity() : v;
  }
  softmax(row.choice, row.e);
  warp_barrier();
  best.v = row.choice[best.id];
  if (best.id % 32 == lane_of()) row.score[best.id] = -infinity();
  warp_barrier();
  return best;
}

// Fills score and choice from the logits.
DEVICE void score_row(Row row, const float* logits, const float* correction, i64 kind) {
  for (int i = lane_of(); i < row.e; i += 32) row.score[i] = kind == sigmoid_topk ? sigmoid(logits[i]) : logits[i];
  if (kind == softmax_topk) softmax(row.score, row.e);
  for (int i = lane_of(); i < row.e; i += 32) row.choice[i] = correction ? row.score[i] + correction[i] : row.score[i];
  warp_barrier();
}

// What the weight of a chosen expert, slot s's in lane s, becomes.
DEVICE float weight_of(float v, i64 kind, int k, bool normalise, float scale) {
  if (kind == topk_sigmoid) return sigmoid(v);
  if (kind == topk_softmax) {
    v = lane_of() < k ? v : -infinity();
    v = exp32(v - warp_max(v));
    return v * (1.f / warp_sum(v));  // of at most 32 values: 16 lanes, as sum_by_16 has them
  }
  return kind == sparse_mixer ? v : finished(v, k, normalise, scale);
}

// At most 32 slots, 32 groups and 2048 experts.
KERNEL(32)
route(int* expert, float* weight, const float* logits, const float* correction, i64 e, i64 k, i64 kind, i64 normalise,
      i64 groups, i64 top_groups, i64 group_pairs, float scale, float threshold) {
  float* shared = (float*)shared_memory();
  Row row = {shared, shared + e, (int)e};
  score_row(row, logits + blockIdx.x * e, correction, kind);
  if (groups > 1) keep_groups(row, groups, top_groups, group_pairs);
  u64 taken = 0;
  Best own = {0, 0};  // slot s is lane s's
  for (int s = 0; s < k; s++) {
    Best best = kind == sparse_mixer ? sparse_best(row, threshold) : next_best(row.choice, row.e, taken);
    if (kind != sparse_mixer) best.v = row.score[best.id];
    if (s == lane_of()) own = best;
  }
  own.v = weight_of(own.v, kind, k, normalise, scale);
  if (lane_of() >= k) return;
  expert[blockIdx.x * k + lane_of()] = own.id;
  weight[blockIdx.x * k + lane_of()] = own.v;
}
