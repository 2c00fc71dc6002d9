// All kernels in one library, which ../emulate.go opens.
#define SWITCHYARD_EMULATE
#include "../../src/machine.cuh"
#include "../../src/attend.cu"
#include "../../src/ceiling.cu"
#include "../../src/experts.cu"
#include "../../src/latent.cu"
#include "../../src/logits.cu"
#include "../../src/random.cu"
#include "../../src/route.cu"
#include "../../src/rows.cu"
#include "../../src/wgmma.cu"
#include "../../src/wide.cu"
#include "launch.h"

#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using emulate::entry;

#define ONE(name) entry(#name, name)
#define TOKENS(name, P) ONE(name##_p##P##_t8), ONE(name##_p##P##_t32), ONE(name##_p##P##_t128)
#define WIDTHS(name) ONE(name##_w32), ONE(name##_w64), ONE(name##_w128)

static const emulate::Entry table[] = {
    ONE(rows_split_p1), ONE(rows_split_p2),
    TOKENS(experts_in, 1), TOKENS(experts_in, 2), TOKENS(experts_up, 1), TOKENS(experts_up, 2),
    TOKENS(project, 1), TOKENS(project, 2),
    TOKENS(experts_in_fp8, 1), TOKENS(experts_in_fp8, 2), TOKENS(experts_in_mxfp4, 1), TOKENS(experts_in_mxfp4, 2),
    TOKENS(project_fp8, 1), TOKENS(project_fp8, 2), TOKENS(project_mxfp4, 1), TOKENS(project_mxfp4, 2),
    ONE(rows_pieces_p1), ONE(rows_pieces_p2), TOKENS(experts_in_wgmma, 1), TOKENS(experts_in_wgmma, 2),
    TOKENS(experts_up_wgmma, 1), TOKENS(experts_up_wgmma, 2), TOKENS(project_wgmma, 1), TOKENS(project_wgmma, 2),
    ONE(rms_norm), ONE(head_norm), ONE(layer_norm), ONE(add_rows), ONE(sum_slots), ONE(activate_rows), ONE(gate_rows), ONE(scale_rows), ONE(rope),
    ONE(route_logits_bf16), ONE(route_logits_f32), ONE(route), ONE(kv_store_p1), ONE(kv_store_p2),
    WIDTHS(attend_split_p1), WIDTHS(attend_split_p2), WIDTHS(attend_tile_p1), WIDTHS(attend_tile_p2), WIDTHS(attend_merge), ONE(attend_merge_w256), ONE(attend_merge_w512),
    ONE(attend_split_p1_w256), ONE(attend_split_p2_w256), ONE(attend_tile_p1_w256), ONE(attend_tile_p2_w256),
    ONE(ceiling_read), ONE(ceiling_mma), ONE(ceiling_wgmma), ONE(random_weights),
    ONE(latent_store_p1), ONE(latent_store_p2), ONE(attend_latent_p1_r64), ONE(attend_latent_p1_r512),
    ONE(attend_latent_p2_r64), ONE(attend_latent_p2_r512), ONE(attend_latent_tile_p1_r64), ONE(attend_latent_tile_p1_r512),
    ONE(attend_latent_tile_p2_r64), ONE(attend_latent_tile_p2_r512),
};
static const int table_size = sizeof table / sizeof *table;

extern "C" const char* emulate_name(int i) { return i < table_size ? table[i].name : nullptr; }
extern "C" int emulate_parameters(int i) { return table[i].parameters; }
extern "C" unsigned long long emulate_conflicts() { return emulate::conflicts; }

// Returns what went wrong, or null.
extern "C" const char* emulate_launch(int i, const unsigned* grid, const unsigned* shape, unsigned shared_bytes,
                                      const uint64_t* args, unsigned schedule) {
  static std::mutex one;
  std::lock_guard<std::mutex> lock(one);
  emulate::Call call = {table[i].kernel, table[i].run, args};
  return emulate::run_grid(call, {grid[0], grid[1], grid[2]}, {shape[0], shape[1], shape[2]}, shared_bytes, schedule);
}

static size_t page_size() { return sysconf(_SC_PAGESIZE); }
static size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

// Memory that ends, but for what alignment takes, at a page that nobody may touch. It is filled with what is
// no number.
extern "C" void* emulate_alloc(size_t bytes) {
  size_t whole = whole_pages(bytes), aligned = (bytes + 15) / 16 * 16;
  uint8_t* all = (uint8_t*)mmap(nullptr, whole + page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  memset(all, 0xff, whole);
  mprotect(all + whole, page_size(), PROT_NONE);
  return all + whole - aligned;
}

extern "C" void emulate_free(void* p, size_t bytes) {
  uintptr_t first = (uintptr_t)p / page_size() * page_size();
  munmap((void*)first, whole_pages(bytes) + page_size());
}
