// Pages of keys and values. README.md, "Memory", has the layout.
#pragma once
#include "numbers.cuh"

enum { page_positions = 32, split_positions = 256, split_pages = split_positions / page_positions };

// Elements of one part of one head's keys, or values, in a page.
DEVICE i64 plane_of(i64 w) { return page_positions * w; }

// Head h's keys in the page of a position; the values follow the keys' parts.
template <int P>
DEVICE u16* head_of(const u64* pages, i64 page, i64 layer_at, i64 h, i64 w) {
  return (u16*)(pages[page] + layer_at) + h * 2 * P * plane_of(w);
}
