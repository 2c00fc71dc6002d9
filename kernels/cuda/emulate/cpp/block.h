// A block of threads on one processor: a fiber for each thread, run one at a time in an order
// that the caller chooses. What threads do together they wait for; who waits for what
// never happens is found. Copies to shared memory happen as late as the program allows,
// and what they will overwrite is spoilt at once, so that a missing wait or barrier
// changes the result. The same of copies that signals tell the end of, and products of
// groups of four warps: hopper.h.
#pragma once
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <ucontext.h>
#include <vector>

namespace emulate {

struct Index {
  unsigned x, y, z;
};

// Ends the launch with a message.
[[noreturn]] void fail(const char* format, ...);

// All of `size` threads come to it before any goes on, for the same reason.
struct Barrier {
  unsigned size = 0, waiting = 0, passed = 0;
  const char* what = nullptr;
  void wait(const char* reason);
  bool arrive(const char* reason);  // true for the last
  void open();
  void await(unsigned before);
};

struct Copy {
  void* to;
  const void* from;
  bool real;
  unsigned group;
};

// An mbarrier.
struct Signal {
  unsigned arrivals = 0, missing = 0, phase = 0;
  long long bytes = 0;  // expected, less what has come
  bool shown = false;   // to copies
  void change(unsigned arrived, long long expected);
};

// Whether so many bytes are all in shared memory.
bool inside(const void* p, size_t bytes);

// A copy of many bytes, which nobody waits for but by its signal.
struct Bulk {
  uint8_t* to;
  const uint8_t* from;
  size_t bytes;
  Signal* signal;
};

// Shared memory from one offset to another.
struct Range {
  size_t from, to;
  bool overlaps(Range other) const { return from < other.to && other.from < to; }
};

// A lane's part of a product under way.
struct Product {
  float* sums;
  unsigned columns, group;
  uint64_t a, b;
  Range reads[2];
};

struct Thread {
  Index index;
  unsigned number;
  // The fiber.
  ucontext_t start;
  jmp_buf at;
  bool begun, done;
  // What it waits for.
  Barrier* barrier;
  unsigned before;
  unsigned turn;  // counts what it did with its warp
  // Copies under way, oldest first.
  std::vector<Copy> copies;
  unsigned group;
  // The signal that it waits for, and products under way, oldest first.
  Signal* signal;
  const void* signal_place;
  unsigned parity;
  std::vector<Product> products;
  unsigned products_group, products_begun;
  bool sums_free;      // for products, until it waits for them
  unsigned registers;  // that it has asked for

  bool waits() const {
    return barrier ? barrier->passed == before : signal && signal->phase % 2 == parity;
  }
  void begin_copy(void* to, const void* from, bool real);
  void commit() { group++; }
  void wait_copies(unsigned groups);
};

const unsigned exchange_bytes = 64;

struct Warp {
  Barrier barrier;
  alignas(16) uint8_t in[2][32][exchange_bytes], out[2][32][exchange_bytes];
};

struct Block {
  Index index, grid;
  uint8_t* shared;
  unsigned shared_bytes;
  Barrier barrier;
  std::vector<Warp> warps;
  std::vector<Thread> threads;
  // By their addresses; copies under way; and what products each group of four warps has begun.
  std::map<const void*, Signal> signals;
  std::vector<Bulk> bulks;
  std::vector<std::vector<Product>> products;

  size_t offset(const void* p) const { return (const uint8_t*)p - shared; }
  Range range(const void* p, size_t bytes) const { return {offset(p), offset(p) + bytes}; }
  bool copying(Range r) const;
  // Ends one of the copies under way; false if there are none.
  bool end_copy(unsigned schedule, std::mt19937& random);
  // Fails if something is still under way when all threads have ended.
  void check_over();
};

// Lets others run until what this thread waits for has come.
void pause();

extern Block* block;
extern Thread* self;
extern unsigned long long conflicts;

inline int lane() { return self->number % 32; }
inline Warp& warp() { return block->warps[self->number / 32]; }

// What the lanes bring goes to all(in, out), and each gets its own out. Two sets of
// places take turns: when a lane comes again to the first, all have left it.
template <class In, class Out, class All>
Out together(const char* what, In in, All all) {
  static_assert(sizeof(In) <= exchange_bytes && sizeof(Out) <= exchange_bytes, "too large to exchange");
  Warp& w = warp();
  unsigned turn = self->turn++ % 2, before = w.barrier.passed;
  memcpy(w.in[turn][lane()], &in, sizeof in);
  if (w.barrier.arrive(what)) {
    In ins[32];
    Out outs[32];
    for (int l = 0; l < 32; l++) memcpy(&ins[l], w.in[turn][l], sizeof(In));
    all(ins, outs);
    for (int l = 0; l < 32; l++) memcpy(w.out[turn][l], &outs[l], sizeof(Out));
    w.barrier.open();
  } else {
    w.barrier.await(before);
  }
  Out out;
  memcpy(&out, w.out[turn][lane()], sizeof out);
  return out;
}

// So many bytes in shared memory, aligned to their number; anything else ends the launch.
const void* checked_words(const void* from, unsigned bytes);

// Counts how often more than one of what is loaded at a time, 128 bytes in all, wants the same banks.
void count_conflicts(const void* const* from, int count, unsigned bytes);

}  // namespace emulate
