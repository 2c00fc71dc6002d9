// Functions of one number. They take the steps of kernels/cpu, so that they give its bits.
#pragma once
#include "machine.cuh"

DEVICE float infinity() { return float_of(0x7f800000); }
DEVICE float larger(float a, float b) { return b > a ? b : a; }
DEVICE float smaller(float a, float b) { return b < a ? b : a; }

// e^x to about one unit in the last place: x = n·ln2 + r, a polynomial of r, times 2^n.
DEVICE float exp32(float x) {
  float y = smaller(x, 88.f);
  float t = fused(y, 0x1.715476p+0f, 0x1.8p23f);  // the integer n sits in the low bits of t
  float n = t - 0x1.8p23f;
  float r = fused(n, -0x1.62e4p-1f, y);
  r = fused(n, -0x1.7f7d1cp-20f, r);
  float p = fused(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = fused(p, r, 8.3334519073e-3f);
  p = fused(p, r, 4.1665795894e-2f);
  p = fused(p, r, 1.6666665459e-1f);
  p = fused(p, r, 5.0000001201e-1f);
  p = fused(p, r, 1.f);
  p = fused(p, r, 1.f);
  p *= float_of((bits_of(t) << 23) + 0x3f800000u);
  p = x < -87.33f ? 0.f : p;
  return x != x ? x : p;
}

DEVICE float sigmoid(float x) { return 1.f / (1.f + exp32(-x)); }

// x·Φ(x), by the polynomial that kernels/cpu explains.
DEVICE float gelu(float x) {
  float t = float_of(bits_of(x) & 0x7fffffffu);
  float s = 1.f / fused(0.36f, t, 1.f);
  float q = fused(-0.030341848f, s, 0.13993604f);
  q = fused(q, s, -0.22433213f);
  q = fused(q, s, 0.10804374f);
  q = fused(q, s, -0.00074800761f);
  q = fused(q, s, 0.096151581f);
  q = fused(q, s, 0.12398928f);
  q = fused(q, s, 0.14368376f);
  q = fused(q, s, 0.14361760f);
  q = q * s * exp32(t * t * -0.5f);
  return bits_of(x) >> 31 ? x * q : x * (1.f - q);
}

DEVICE float gelu_tanh(float x) {
  float z = x * fused(-0.071354815f, x * x, -1.5957691f);
  return x / (1.f + exp32(z));
}

enum { swiglu_kind, clamped_swiglu_kind, gelu_kind, gelu_tanh_kind };

// Activations with a gate: gate / below() · up, of what below() leaves. Both kinds are one path.
struct Gate {
  float limit, factor, plus;
  DEVICE_MEMBER Gate(i64 kind, float most) : limit(infinity()), factor(-1.f), plus(-0.f) {
    if (kind == clamped_swiglu_kind) limit = most, factor = -1.702f, plus = 1.f;
  }
  DEVICE_MEMBER float below(float& gate, float& up) const {
    gate = smaller(gate, limit);
    up = larger(smaller(up, limit), -limit) + plus;
    return 1.f + exp32(gate * factor);
  }
};

// By the activations without a gate.
DEVICE float activated(i64 kind, float v) { return kind == gelu_tanh_kind ? gelu_tanh(v) : gelu(v); }

// What is left of x when bf16 h is taken away, nothing where h is no number.
DEVICE float rest_of(float x, u16 h) { return (h & 0x7f80) == 0x7f80 ? 0.f : x - from_bf16(h); }

// x as a sum of P bf16, see README.md, "Planes".
template <int P>
DEVICE void split(float x, u16 (&part)[P]) {
#pragma unroll
  for (int p = 0; p < P; p++) {
    part[p] = to_bf16(x);
    x = rest_of(x, part[p]);
  }
}

// The sum of a warp's v in one order, the same in all lanes.
DEVICE float warp_sum(float v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) v += lane_xor(v, mask);
  return v;
}

DEVICE float warp_max(float v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) v = larger(v, lane_xor(v, mask));
  return v;
}
