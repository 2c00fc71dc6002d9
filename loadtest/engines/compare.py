"""Compares Switchyard with llama.cpp on the same weights, in turns: compare.py SWITCHYARD MODEL_DIR [--turns N] [--kinds bf16,q8,q4]
[--neighbour] [--keep DIR] [--kv bf16] [--threads 1,2] [--flash on,off] [--llama PYTHON,...]
[--prompt 16]

Prints, for each precision and for one stream, 32 streams and prompts of 512 (prefill; scored: with logits of all positions), the tokens/s of
llama.cpp with weights of as many bits and the way of computing that is fastest in the median: --threads (default: one, and one for each core), with
flash attention or without (--flash), and the builds of the Pythons of --llama (those that were far from the fastest in all four are not looked at again), and what direct calls and the pipeline make of it: median, least and most of the turns.
Kinds Q4_K_M, Q8_0 and Q4_0 are files of llama.cpp's own quantiser, which both read: codes as they are, with rows in float32 and in 8 bits.
--prompt is how many tokens come before those that streams generate: with 1, a large model's 32 prompts take no minutes. --kv is what keys and values of ours are kept in (bench --kv-cache-dtype); llama.cpp keeps 16 bits. --neighbour has another process keep one core busy meanwhile; --keep leaves the GGUF files in a folder for the next time.
Needs what export.py and llama.py need, and a model in bf16 that export.py reads, such as shape.py makes.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
SECONDS = "0.5"
PRECISIONS = {"bf16": ["bf16", "w16a16"], "q8": ["q8", "w8a8"], "q4": ["q4", "w4a8"]}  # by the kind of llama.cpp's weights
MEASURES = ("one", "batch", "prefill", "scored")
NEAR = 0.7  # of the fastest of a turn: what is below is not looked at again
CODES = ("Q4_K_M", "Q8_0", "Q4_0")


def run(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{args}: exit status {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ours(program, model, kind, kv, prompt):
    flags = ["--precision", kind, "--kv-cache-dtype", kv, "--prompt-tokens", prompt]
    one, batch = run(program, "bench", "--model", model, *flags, "--batch", "1,32", "--rounds", "1", "--seconds", SECONDS, "--json")[:2]
    return {
        "direct": {"one": one["direct_tokens_per_s"], "batch": batch["direct_tokens_per_s"],
                   "prefill": one["direct_prefill_tokens_per_s"], "scored": one["direct_scored_tokens_per_s"]},
        "pipeline": {"one": one["pipeline_tokens_per_s"], "batch": batch["pipeline_tokens_per_s"]},
        "share": {"one": one["direct_bandwidth_ratio"], "scored": one["direct_scored_flops_ratio"]},
    }


def ratio(ours, theirs):
    r = sorted(a / b for a, b in zip(ours, theirs))
    return f"{statistics.median(r):.2f} ({r[0]:.2f} to {r[-1]:.2f})"


@contextlib.contextmanager
def neighbour(busy):
    """A process that keeps a core busy, if there is to be one."""
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        yield
    finally:
        if spinning:
            spinning.kill()


def path(out, kind):
    """The file of a kind; one of codes is the weights of a model of its own."""
    return pathlib.Path(f"{out}/{kind}/model.gguf" if kind in CODES else f"{out}/{kind}.gguf")


def write(model, out, kind):
    """Writes the file of a kind, if it is not there."""
    to = path(out, kind)
    if to.exists():
        return
    if kind not in CODES:
        run(sys.executable, HERE / "export.py", model, to, kind)
        return
    write(model, out, "bf16")
    to.parent.mkdir(exist_ok=True)
    for name in ("config.json", "tokenizer.json"):
        if (pathlib.Path(model) / name).exists():
            shutil.copy(pathlib.Path(model) / name, to.parent)
    run(sys.executable, HERE / "quantise.py", path(out, "bf16"), to, kind)


def llamas(pythons, threads, flashes):
    """The ways to run llama.cpp: builds, threads, and with flash attention or without."""
    return [(python, t, flash) for python in pythons for t in threads for flash in flashes]


def fastest(llama, what):
    """The way that is fastest in the median of turns that are dictionaries by way."""
    return max(llama[0], key=lambda way: statistics.median(turn[way][what] for turn in llama))


def turns(program, model, out, kinds, count, kv, prompt, ways, seen):
    ways = dict.fromkeys(kinds, ways)
    for _ in range(count):
        for kind in kinds:
            llama = {way: run(way[0], HERE / "llama.py", path(out, kind), way[1], SECONDS, way[2], prompt)[0] for way in ways[kind]}
            best = {what: max(turn[what] for turn in llama.values()) for what in MEASURES}
            ways[kind] = [way for way in ways[kind] if any(llama[way][what] > NEAR * best[what] for what in MEASURES)]  # the others take no time any more
            weights = path(out, kind).parent if kind in CODES else model
            for precision in PRECISIONS.get(kind, ["bf16", "a8"]):
                label = f"{kind} {precision}" if kind in CODES else precision
                seen.setdefault(label, []).append({**ours(program, weights, precision, kv, prompt), "llama": llama})


def show(seen):
    for kind, all in seen.items():
        if not all:
            print(f"{kind:6} no turn ended in time", flush=True)
            continue
        for what in MEASURES:
            python, threads, flash = fastest([{w: t["llama"][w] for w in all[-1]["llama"]} for t in all], what)
            theirs = [turn["llama"][python, threads, flash][what] for turn in all]
            line = f"{kind:11} {what:8} {len(all)} turns: llama.cpp {statistics.median(theirs):7.1f} tokens/s ({min(theirs):.1f} to {max(theirs):.1f}, {python}, {threads} threads, flash {flash})"
            for path in ("direct", "pipeline"):
                if what in all[0][path]:
                    line += f", {path} {ratio([turn[path][what] for turn in all], theirs)}"
            if what in all[0]["share"]:
                share = statistics.median(turn["share"][what] for turn in all)
                line += f", direct reads {share:.2f} of the bandwidth" if what == "one" else f", direct computes {share:.2f} of the FMA peak"
            print(line, flush=True)


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("program")
    p.add_argument("model")
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--kinds", default=",".join(PRECISIONS))
    p.add_argument("--neighbour", action="store_true")
    p.add_argument("--keep")
    p.add_argument("--kv", default="bf16")
    p.add_argument("--prompt", type=int, default=16)
    p.add_argument("--llama", default=sys.executable)
    p.add_argument("--flash", default="on,off")
    p.add_argument("--threads", default=f"1,{os.cpu_count()}")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = a.keep or temporary
        for kind in a.kinds.split(","):
            write(a.model, out, kind)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was seen until then is shown
        seen, ways = {}, llamas(a.llama.split(","), a.threads.split(","), a.flash.split(","))
        with neighbour(a.neighbour):
            try:
                turns(a.program, a.model, out, a.kinds.split(","), a.turns, a.kv, a.prompt, ways, seen)
            finally:
                show(seen)


if __name__ == "__main__":
    main()
