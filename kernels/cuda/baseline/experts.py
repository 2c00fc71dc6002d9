"""The feed-forward of a layer's experts, each with as many rows, in bf16 by torch and by Triton."""

import functools

import torch
from torch.nn.functional import silu

import timing

# The public name is newer than the function.
grouped_mm = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)

try:
    import grouped
except ImportError as error:
    grouped = None
    timing.note(f"Triton's grouped product is left out: {error}")


class Call:
    """A call of a layer's experts."""

    def __init__(self, device, shape, rows, most_rows):
        self.device, self.shape, self.rows = device, shape, rows
        self.groups = groups = min(shape.experts, max(1, most_rows // rows))

        def random(*size, scale=1.0):
            return torch.randn(size, dtype=torch.bfloat16, device=device).mul_(scale)

        self.x = random(groups * rows, shape.hidden)
        # The gate's rows, then the up's.
        self.up = random(groups, 2 * shape.width, shape.hidden, scale=shape.hidden**-0.5)
        self.down = random(groups, shape.hidden, shape.width, scale=shape.width**-0.5)
        self.ends = torch.arange(rows, groups * rows + 1, rows, dtype=torch.int32, device=device)

    def name(self):
        return f"Experts/{self.shape.name}/bf16/rows={self.rows}"

    def bytes(self):
        return self.up.nbytes + self.down.nbytes

    def operations(self):
        return 6 * self.x.shape[0] * self.shape.hidden * self.shape.width

    def grouped(self):
        gate, up = grouped_mm(self.x, self.up.mT, offs=self.ends).chunk(2, -1)
        return grouped_mm(silu(gate) * up, self.down.mT, offs=self.ends)

    def loop(self):
        return looped(self.x, self.up, self.down, self.rows)

    def exact(self):
        return looped(self.x.double(), self.up.double(), self.down.double(), self.rows)


def looped(x, up, down, rows):
    out = torch.empty_like(x)
    for these, w, v, to in zip(x.split(rows), up, down, out.split(rows)):
        gate, other = torch.mm(these, w.mT).chunk(2, -1)
        torch.mm(silu(gate) * other, v.mT, out=to)
    return out


class Fused:
    """The same in two launches of Triton's, each of the fastest of some blocks."""

    def __init__(self, call, configs):
        self.call, self.size = call, grouped.tile_rows(call.rows)
        self.tiles = grouped.tile_table(call.groups, call.rows, call.device)
        x, up, down = call.x, call.up, call.down
        if call.device.type != "cuda":  # Triton's interpreter multiplies no bf16
            x, up, down = x.float(), up.float(), down.float()
        # What a launch leaves unwritten is no number.
        self.act = x.new_full((x.shape[0], call.shape.width), float("nan"))
        self.out = torch.full_like(x, float("nan"))
        self.first = self.fastest(configs, self.act, x, up, True)
        self.second = self.fastest(configs, self.out, self.act, down, False)

    def fastest(self, configs, *args):
        works = [functools.partial(grouped.launch, *args, self.tiles, self.size, config) for config in configs]
        return works[0] if len(works) == 1 else min(works, key=self.seconds)

    def seconds(self, work):
        try:
            return timing.median(self.call.device, work, 0.01)[0]
        except timing.LeftOut:
            return float("inf")

    def __call__(self):
        self.first()
        self.second()
        return self.out


def ways(call):
    ways = {}
    if grouped_mm is not None:
        ways["torch-grouped_mm"] = call.grouped
    else:
        timing.note("this torch has no grouped_mm; a loop of torch.mm stands for it")
        ways["torch-loop"] = call.loop
    if grouped is not None:
        # An interpreter's time says nothing of blocks.
        some = grouped.CONFIGS if call.device.type == "cuda" else grouped.CONFIGS[:1]
        fused = timing.attempt(f"{call.name()}/by=triton", Fused, call, some)
        if fused is not None:
            ways["triton"] = fused
    return ways


def bench(device, shapes, seconds):
    for shape in shapes.experts:
        for rows in shape.rows:
            timing.attempt(
                f"Experts/{shape.name}/bf16/rows={rows}", one, device, shape, rows, shapes.most_rows, seconds
            )


def one(device, shape, rows, most_rows, seconds):
    call = Call(device, shape, rows, most_rows)
    timing.compare(call.device, call.name(), ways(call), seconds, call.operations(), call.bytes())


def check(device, shapes):
    for shape in shapes.experts:
        for rows in shape.rows:
            call = Call(device, shape, rows, shapes.most_rows)
            timing.check_all(call.name(), checked(call), call.exact(), 1e-2)


def checked(call):
    ways = {"torch-loop": call.loop}
    if grouped_mm is not None:
        ways["torch-grouped_mm"] = call.grouped
    if grouped is not None:
        for config in grouped.CONFIGS:
            ways["triton-" + "-".join(map(str, config))] = functools.partial(fused_once, call, config)
    return ways


def fused_once(call, config):
    return Fused(call, [config])()
