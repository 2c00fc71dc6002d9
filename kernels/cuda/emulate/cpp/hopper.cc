// Signals, copies of many bytes, and products of groups of four warps: block.h, hopper.h.
#include "block.h"

#include <algorithm>

namespace emulate {

void Signal::change(unsigned arrived, long long expected) {
  if (arrived > missing) fail("arrives at a signal once more than the %u times it was made for", arrivals);
  missing -= arrived, bytes += expected;
  if (missing == 0 && bytes == 0) missing = arrivals, phase++;
}

Signal* signal_at(const void* p) {
  auto found = block->signals.find(p);
  if (found == block->signals.end()) fail("uses a signal at %zu that was never made", block->offset(p));
  return &found->second;
}

void make_signal(const void* p, unsigned arrivals) {
  if ((uintptr_t)p % 8 || !inside(p, 8)) fail("a signal at %p, outside of shared memory or not aligned", p);
  if (block->signals.count(p)) fail("makes the signal at %zu again", block->offset(p));
  Signal& s = block->signals[p];
  s.arrivals = s.missing = arrivals;
}

void show_signals() {
  for (auto& s : block->signals) s.second.shown = true;
}

void wait_signal(const void* p, unsigned parity) {
  self->signal = signal_at(p), self->signal_place = p, self->parity = parity;
  if (self->waits()) pause();
  self->signal = nullptr;
}

bool Block::copying(Range r) const {
  return std::any_of(bulks.begin(), bulks.end(), [&](const Bulk& b) { return r.overlaps(range(b.to, b.bytes)); });
}

// What is overwritten is spoilt at once.
void begin_bulk(void* to, const void* from, size_t bytes, const void* signal) {
  if ((uintptr_t)to % 16 || (uintptr_t)from % 16 || bytes % 16) fail("a copy of %zu bytes to %p is not aligned", bytes, to);
  if (!inside(to, bytes)) fail("a copy of %zu bytes to %p, outside of shared memory", bytes, to);
  Range r = block->range(to, bytes);
  if (block->copying(r)) fail("a copy to %zu, where another copy goes", r.from);
  for (const Thread& t : block->threads)
    for (const Product& p : t.products)
      if (r.overlaps(p.reads[0]) || r.overlaps(p.reads[1])) fail("a copy to %zu, which thread %u has yet to multiply", r.from, t.number);
  Signal* s = signal_at(signal);
  if (!s->shown) fail("a copy that is to tell the signal at %zu, which copies may not see yet", block->offset(signal));
  memset(to, 0xff, bytes);
  block->bulks.push_back({(uint8_t*)to, (const uint8_t*)from, bytes, s});
}

bool Block::end_copy(unsigned schedule, std::mt19937& random) {
  if (bulks.empty()) return false;
  size_t i = schedule == 0 ? 0 : schedule == 1 ? bulks.size() - 1 : random() % bulks.size();
  Bulk b = bulks[i];
  bulks.erase(bulks.begin() + i);
  memcpy(b.to, b.from, b.bytes);
  b.signal->change(0, -(long long)b.bytes);
  return true;
}

void Block::check_over() {
  if (!bulks.empty()) fail("ends before %zu copies", bulks.size());
  for (const Thread& t : threads) {
    if (!t.products.empty()) fail("thread %u ends before %zu products", t.number, t.products.size());
    if (t.products_begun != 0 && t.products_begun != products[t.number / 128].size())
      fail("thread %u has begun %u products, others of its group %zu", t.number, t.products_begun, products[t.number / 128].size());
    unsigned others = threads[t.number / 128 * 128].registers;
    if (t.registers != others) fail("thread %u has asked for %u registers, others of its group for %u", t.number, t.registers, others);
  }
}

// PTX ISA, "Matrix Descriptor Format", and "Shared Memory Matrix Layout" for K-major operands with
// swizzling of 128 bytes: 8 rows of 128 bytes lie behind each other; bits 4 to 6 of an address are
// exchanged by its bits 7 to 9.
struct Operand {
  size_t start, stride;
  explicit Operand(uint64_t d) : start((d & 0x3fff) << 4), stride((d >> 32 & 0x3fff) << 4) {
    unsigned offset = d >> 49 & 7, mode = d >> 62;
    if (mode != 1 || offset != 0) fail("an operand of mode %u with a base offset of %u: only 1 and 0 are emulated", mode, offset);
    if (start % 128 + 32 > 128 || start % 1024 >= 128 || stride % 1024) fail("an operand at %zu, %zu bytes from 8 rows to the next", start, stride);
  }
  Range rows(unsigned n) const { return {start / 128 * 128, start / 128 * 128 + (n / 8 - 1) * stride + 1024}; }
  float at(unsigned row, unsigned column) const {
    size_t linear = start + row / 8 * stride + row % 8 * 128 + 2 * column;
    uint16_t bits;
    memcpy(&bits, block->shared + (linear ^ (linear >> 7 & 7) << 4), 2);
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, 4);
    return x;
  }
};

// Sums are the program's again when it has waited for products.
void begin_products() {
  self->sums_free = true;
  warp().barrier.wait("products_begin");
}

// All threads of four warps begin the same products, warp by warp at their own pace.
void begin_product(float* sums, unsigned columns, uint64_t a, uint64_t b) {
  if (!self->sums_free) fail("a product without products_begin");
  std::vector<Product>& all = block->products[self->number / 128];
  Product p = {sums, columns, self->products_group, a, b, {Operand(a).rows(64), Operand(b).rows(columns)}};
  for (Range r : p.reads)
    if (r.to > block->shared_bytes) fail("a product reads up to %zu, outside of shared memory", r.to);
  unsigned number = self->products_begun++;
  if (number == all.size()) all.push_back(p);
  if (all[number].a != a || all[number].b != b || all[number].columns != columns) fail("a product that is not that of others of its group");
  self->products.push_back(p);
}

// Of a warp's 16 rows lane l has l/4 and l/4 + 8, and of each 8 columns 2·(l%4) and the next. A sum of 16
// is exact and rounded once, as an mma's is here.
static void multiply(const Product& p) {
  for (Range r : p.reads)
    if (block->copying(r)) fail("a product reads from %zu on, where a copy has yet to come", r.from);
  Operand a(p.a), b(p.b);
  double rows[2][16], columns[2][16];
  unsigned row = self->number % 128 / 32 * 16 + lane() / 4;
  for (int k = 0; k < 16; k++) rows[0][k] = a.at(row, k), rows[1][k] = a.at(row + 8, k);
  for (unsigned n = 0; n < p.columns; n += 8) {
    for (int k = 0; k < 16; k++)
      for (int i = 0; i < 2; i++) columns[i][k] = b.at(n + lane() % 4 * 2 + i, k);
    for (int i = 0; i < 4; i++) {
      float& d = p.sums[n / 2 + i];
      double sum = d;
      for (int k = 0; k < 16; k++) sum += rows[i / 2][k] * columns[i % 2][k];
      d = (float)sum;
    }
  }
}

// Products are computed as late as the program allows.
void wait_products(unsigned groups) {
  size_t n = 0;
  for (; n < self->products.size() && self->products[n].group + groups < self->products_group; n++) multiply(self->products[n]);
  self->products.erase(self->products.begin(), self->products.begin() + n);
  self->sums_free = false;
  warp().barrier.wait("products_wait");
}

}  // namespace emulate
