"""Times on a GPU, by torch, Triton and transformers, what the benchmarks in Go time of ours.

First small shapes are compared with plain sums in float64. Lines are in the format of Go's
benchmarks, with the names of ours and /by=WHOSE behind them, so that benchstat -col /by sets
them side by side. What is not installed, or has no room, is left out and said on stderr;
what fails or computes something else is, too, and ends this with 1.
"""

import argparse
import importlib
import os
import sys

PARTS = ("ceilings", "experts", "attention", "generate")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="where it is computed")
    parser.add_argument("--quick", action="store_true", help="time small shapes, which a processor computes in seconds")
    parser.add_argument("--check", action="store_true", help="compare only, time nothing")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="only these")
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long each is timed, but for generate")
    return parser.parse_args()


def opened(name):
    """The device of this name, or None: then all is left out."""
    if name == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton has no compiler for processors
    try:
        import torch
    except ImportError as error:
        print(f"baseline: all is left out: {error}", file=sys.stderr)
        return None
    if name != "cpu" and not torch.cuda.is_available():
        print("baseline: all is left out: torch sees no GPU", file=sys.stderr)
        return None
    torch.manual_seed(1)
    return torch.device(name)


def run(device, args):
    import shapes  # these need torch
    import timing

    timing.about(device)
    timed = shapes.QUICK if args.quick else shapes.FULL
    for part in args.parts:
        module = importlib.import_module(part)
        timing.attempt(f"checking {part}", module.check, device, shapes.QUICK)
        if not args.check:
            timing.attempt(part, module.bench, device, timed, args.seconds)
    for name in timing.failures:
        timing.note(f"failed: {name}")
    return 1 if timing.failures else 0


def main():
    args = arguments()
    device = opened(args.device)
    return run(device, args) if device else 0


if __name__ == "__main__":
    sys.exit(main())
