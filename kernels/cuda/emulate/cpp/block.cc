#include "block.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include "launch.h"

namespace emulate {

Block* block;
Thread* self;
unsigned long long conflicts;

static jmp_buf scheduler;
static char message[512];
static bool failed;
static const Call* call;

const size_t stack_bytes = 128 << 10;

void fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  int n = snprintf(message, sizeof message, "block (%u, %u, %u), thread %u: ", block->index.x, block->index.y,
                   block->index.z, self->number);
  vsnprintf(message + n, sizeof message - n, format, args);
  va_end(args);
  failed = true;
  _longjmp(scheduler, 1);
}

void pause() {
  if (_setjmp(self->at) == 0) _longjmp(scheduler, 1);
}

bool Barrier::arrive(const char* reason) {
  if (waiting && strcmp(what, reason) != 0) fail("%s, where others do %s", reason, what);
  what = reason;
  return ++waiting == size;
}

void Barrier::open() { waiting = 0, passed++; }

void Barrier::await(unsigned before) {
  self->barrier = this, self->before = before;
  pause();
  self->barrier = nullptr;
}

void Barrier::wait(const char* reason) {
  unsigned before = passed;
  if (arrive(reason)) {
    open();
  } else {
    await(before);
  }
}

bool inside(const void* p, size_t bytes) {
  const uint8_t* at = (const uint8_t*)p;
  return at >= block->shared && at + bytes <= block->shared + block->shared_bytes;
}

void Thread::begin_copy(void* to, const void* from, bool real) {
  if ((uintptr_t)to % 16 || (uintptr_t)from % 16) fail("a copy of 16 bytes from %p to %p is not aligned", from, to);
  if (!inside(to, 16)) fail("a copy to %p, outside of shared memory", to);
  memset(to, 0xff, 16);
  copies.push_back({to, from, real, group});
}

void Thread::wait_copies(unsigned groups) {
  size_t n = 0;
  for (; n < copies.size() && copies[n].group + groups < group; n++) {
    if (copies[n].real) {
      memcpy(copies[n].to, copies[n].from, 16);
    } else {
      memset(copies[n].to, 0, 16);
    }
  }
  copies.erase(copies.begin(), copies.begin() + n);
}

const void* checked_words(const void* from, unsigned bytes) {
  if ((uintptr_t)from % bytes || !inside(from, bytes))
    fail("%u bytes at %p, outside of shared memory or not aligned", bytes, from);
  return from;
}

void count_conflicts(const void* const* from, int count, unsigned bytes) {
  unsigned seen = 0;
  for (int i = 0; i < count; i++) {
    unsigned banks = 1u << ((uintptr_t)from[i] % 128 / bytes);
    if (seen & banks) conflicts++;
    seen |= banks;
  }
}

static void run_thread() {
  call->run(call->kernel, call->args);
  self->done = true;
  _longjmp(scheduler, 1);
}

static uint8_t* stacks(size_t threads) {
  static uint8_t* all;
  static size_t have;
  if (threads > have) {
    if (all) munmap(all, have * stack_bytes);
    all = (uint8_t*)mmap(nullptr, threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    have = threads;
  }
  return all;
}

static void make_threads(Block& b, Index shape) {
  unsigned n = shape.x * shape.y * shape.z;
  b.threads.assign(n, Thread());
  b.warps.assign((n + 31) / 32, Warp());
  b.signals.clear(), b.bulks.clear(), b.products.assign((n + 127) / 128, {});
  b.barrier = Barrier();
  b.barrier.size = n;
  uint8_t* stack = stacks(n);
  for (unsigned i = 0; i < n; i++) {
    Thread& t = b.threads[i];
    t.index = {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y}, t.number = i;
    b.warps[i / 32].barrier.size++;
    getcontext(&t.start);
    t.start.uc_stack.ss_sp = stack + i * stack_bytes, t.start.uc_stack.ss_size = stack_bytes;
    makecontext(&t.start, run_thread, 0);
  }
}

// In a function of its own: what longjmp comes back to has no variables that it could spoil.
__attribute__((noinline)) static void resume(Thread* t) {
  self = t;
  if (_setjmp(scheduler)) return;
  if (t->begun) _longjmp(t->at, 1);
  t->begun = true;
  setcontext(&t->start);
}

// The order in which threads have their turns: as numbered, backwards, or any.
static void arrange(std::vector<unsigned>& order, unsigned schedule, std::mt19937& random) {
  for (unsigned i = 0; i < order.size(); i++) order[i] = schedule == 1 ? order.size() - 1 - i : i;
  for (unsigned i = order.size(); schedule > 1 && i > 1; i--) std::swap(order[i - 1], order[random() % i]);
}

__attribute__((noinline)) static void stuck(Block& b) {
  for (Thread& t : b.threads)
    if (!t.done) self = &t;
  if (_setjmp(scheduler)) return;
  if (self->barrier) fail("waits in %s for threads that never come", self->barrier->what);
  fail("waits for phase %u of the signal at %zu, of which %u arrivals and %lld bytes never come", self->signal->phase,
       b.offset(self->signal_place), self->signal->missing, self->signal->bytes);
}

__attribute__((noinline)) static void over(Block& b) {
  if (_setjmp(scheduler) == 0) b.check_over();
}

static void run_block(Block& b, unsigned schedule) {
  std::mt19937 random(schedule);
  std::vector<unsigned> order(b.threads.size());
  for (unsigned left = order.size(); left > 0 && !failed;) {
    unsigned ran = 0;
    arrange(order, schedule, random);
    for (unsigned i : order) {
      Thread& t = b.threads[i];
      if (t.done || t.waits()) continue;
      resume(&t);
      ran++, left -= t.done;
      if (failed) return;
    }
    if (ran == 0 && !b.end_copy(schedule, random)) stuck(b);
  }
  over(b);
}

const char* run_grid(const Call& c, Index grid, Index shape, unsigned shared_bytes, unsigned schedule) {
  Block b;
  block = &b, call = &c, failed = false, conflicts = 0;
  b.grid = grid, b.shared_bytes = shared_bytes;
  std::vector<uint8_t> shared(shared_bytes + 1024);
  b.shared = (uint8_t*)(((uintptr_t)shared.data() + 1023) / 1024 * 1024);
  for (unsigned z = 0; z < grid.z && !failed; z++)
    for (unsigned y = 0; y < grid.y && !failed; y++)
      for (unsigned x = 0; x < grid.x && !failed; x++) {
        memset(b.shared, 0xff, shared_bytes);
        b.index = {x, y, z};
        make_threads(b, shape);
        run_block(b, schedule);
      }
  return failed ? message : nullptr;
}

}  // namespace emulate
