"""Times work on a device, and prints it in the format of Go's benchmarks."""

import itertools
import statistics
import sys
import time

import torch

failures = []


class LeftOut(Exception):
    """What a device cannot do."""


def note(text):
    print(f"baseline: {text}", file=sys.stderr, flush=True)


def about(device):
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the processor"
    note(f"torch {torch.__version__} on {where}")


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def clocked(device, work, n):
    """The seconds of each of n calls, with what the processor does before and after them."""
    took = []
    for _ in range(n):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        took.append(time.perf_counter() - began)
    return took


def measured(device, work, n):
    """The seconds that the device takes for each of n calls, one right behind the other."""
    if device.type != "cuda":
        return clocked(device, work, n)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]


def median(device, work, seconds):
    """The median of as many calls as take so many seconds, 5 to 500, after a warm-up; and how many."""
    measured(device, work, 2)
    one = statistics.median(measured(device, work, 3))
    n = int(min(500, max(5, seconds / max(one, 1e-6))))
    return statistics.median(measured(device, work, n)), n


def line(name, by, n, seconds, **rates):
    """One benchmark's: by says whose it is, after the name that ours has."""
    text = [f"BenchmarkGPU{name}/by={by}", str(n), f"{seconds * 1e9:.0f} ns/op"]
    text += [f"{rate:.4g} {unit}" for unit, rate in rates.items() if rate]
    print("\t".join(text), flush=True)


def attempt(what, work, *args):
    """Goes on without what fails, and without what a device cannot do, or has no memory for."""
    try:
        return work(*args)
    except (LeftOut, torch.cuda.OutOfMemoryError) as error:
        note(f"{what}: left out: {first_line(error)}")
    except Exception as error:  # all else should still be timed
        failures.append(what)
        note(f"{what}: failed: {type(error).__name__}: {first_line(error)}")
    return None


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0]


def compare(device, name, ways, seconds, operations=0, moved=0):
    """Times each way of computing the same, and sets the rates beside."""

    def one(by, work):
        took, n = median(device, work, seconds)
        line(name, by, n, took, **{"GB/s": moved / took / 1e9, "TFLOP/s": operations / took / 1e12})

    for by, work in ways.items():
        attempt(f"{name}/by={by}", one, by, work)


def check(name, work, exact, most):
    """Fails unless it differs from what is exact by less than such a share of that; what is no number fails."""
    got = work().double()
    share = ((got - exact).norm() / exact.norm()).item()
    if not share < most:
        raise ValueError(f"it is off by {share:.1e} of at most {most:.0e}")
    note(f"{name}: off by {share:.1e} of at most {most:.0e}")


def check_all(name, ways, exact, most):
    for by, work in ways.items():
        attempt(f"checking {name}/by={by}", check, f"{name}/by={by}", work, exact.double(), most)
