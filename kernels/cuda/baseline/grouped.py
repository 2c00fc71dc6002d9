"""An expert's feed-forward in two launches of a grouped matrix product in Triton.

Rows come sorted by expert and are cut into tiles of one expert each; a table says whose rows a
tile has. The first launch multiplies by the gate's and the up's matrices at once, and leaves
silu(gate) * up. Neighbouring programs share a block of columns, so that they find it in the cache.
"""

import torch
import triton
import triton.language as tl

import timing

# Columns and depth of a program's blocks, warps, stages.
CONFIGS = ((64, 128, 4, 4), (128, 64, 4, 4), (128, 64, 8, 3), (256, 64, 8, 3))


@triton.jit(do_not_specialize=["count"])
def multiply(
    out, x, w, tiles, count, n, k,
    GATED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """out (rows, n) = x (rows, k) times the transpose of w (experts, n, k); GATED: of (experts, 2n, k)."""
    columns = n // COLUMNS
    me = tl.program_id(0)
    lead = me // (TOGETHER * columns) * TOGETHER
    beside = tl.minimum(count - lead, TOGETHER)
    tile = lead + me % (TOGETHER * columns) % beside
    column = me % (TOGETHER * columns) // beside

    expert = tl.load(tiles + 3 * tile).to(tl.int64)
    first = tl.load(tiles + 3 * tile + 1)
    inside = tl.arange(0, ROWS) < tl.load(tiles + 3 * tile + 2)
    row = first + tl.arange(0, ROWS)
    feature = column * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    matrix = expert * n * (2 if GATED else 1)
    xs = x + row[:, None] * k + depth[None, :]
    ws = w + (matrix + feature)[None, :] * k + depth[:, None]

    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    ups = tl.zeros((ROWS, COLUMNS), tl.float32)
    for at in range(0, k, DEPTH):
        a = tl.load(xs + at, mask=inside[:, None], other=0.0)
        sums = tl.dot(a, tl.load(ws + at), sums)
        if GATED:
            ups = tl.dot(a, tl.load(ws + n * k + at), ups)
    if GATED:
        sums = sums * tl.sigmoid(sums) * ups
    tl.store(out + row[:, None] * n + feature[None, :], sums.to(out.dtype.element_ty), mask=inside[:, None])


def tile_rows(rows):
    """Rows of a tile for so many rows of an expert."""
    return 16 if rows <= 16 else 64 if rows <= 64 else 128


def tile_table(groups, rows, device):
    """(expert, first row, rows) of each tile."""
    size = tile_rows(rows)
    tiles = [(g, g * rows + at, min(size, rows - at)) for g in range(groups) for at in range(0, rows, size)]
    return torch.tensor(tiles, dtype=torch.int32, device=device)


def launch(out, x, w, gated, tiles, size, config):
    columns, depth, warps, stages = config
    n, k = out.shape[1], x.shape[1]
    if n % columns or k % depth:
        raise ValueError(f"{n} features and {k} columns are not whole blocks of {columns} and {depth}")
    grid = (len(tiles) * (n // columns),)
    blocks = {"GATED": gated, "ROWS": size, "COLUMNS": columns, "DEPTH": depth, "TOGETHER": 8}
    try:
        multiply[grid](out, x, w, tiles, len(tiles), n, k, **blocks, num_warps=warps, num_stages=stages)
    except triton.runtime.OutOfResources as error:
        raise timing.LeftOut(error) from error
