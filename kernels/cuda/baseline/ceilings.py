"""What torch multiplies and copies at most. Our ceilings are of other instructions."""

import torch

import timing


def bench(device, shapes, seconds):
    n, size = shapes.ceiling, shapes.copied
    a, b = (torch.randn((n, n), dtype=torch.bfloat16, device=device) for _ in range(2))
    timing.compare(device, f"Ceiling/mm={n}", {"torch": lambda: torch.mm(a, b)}, seconds, 2 * n**3, 3 * a.nbytes)
    here = torch.ones(size, dtype=torch.uint8, device=device)
    there = torch.empty_like(here)
    timing.compare(device, f"Ceiling/copy={size}", {"torch": lambda: there.copy_(here)}, seconds, 0, 2 * size)


def check(device, shapes):
    """Nothing: what a product of torch's is, the others are compared with."""
