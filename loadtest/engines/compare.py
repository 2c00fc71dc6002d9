"""Compares Switchyard with llama.cpp on the same weights, in turns: compare.py SWITCHYARD MODEL_DIR [TURNS]

Prints, for each precision and for one stream, 32 streams and prompts of 512, the tokens/s of llama.cpp with weights of as many bits and
one thread or two, whichever is faster in the median, and what direct calls and the pipeline make of it: median, least and most of the turns.
Needs what export.py and llama.py need, and a model in bf16 that export.py reads.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
SECONDS = "0.5"
PRECISIONS = {"bf16": ["bf16", "w16a16"], "q8": ["q8", "w8a8"], "q4": ["q4", "w4a8"]}  # by the kind of llama.cpp's weights


def run(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{args}: exit status {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ours(program, model, kind):
    one, batch = run(program, "bench", "--model", model, "--precision", kind, "--batch", "1,32", "--rounds", "1", "--seconds", SECONDS, "--json")[:2]
    return {
        "direct": {"one": one["direct_tokens_per_s"], "batch": batch["direct_tokens_per_s"], "prefill": one["direct_prefill_tokens_per_s"]},
        "pipeline": {"one": one["pipeline_tokens_per_s"], "batch": batch["pipeline_tokens_per_s"]},
    }


def ratio(ours, theirs):
    r = sorted(a / b for a, b in zip(ours, theirs))
    return f"{statistics.median(r):.2f} ({r[0]:.2f} to {r[-1]:.2f})"


def main(program, model, turns=5):
    with tempfile.TemporaryDirectory() as out:
        for kind in PRECISIONS:
            run(sys.executable, HERE / "export.py", model, f"{out}/{kind}.gguf", kind)
        seen = {precision: [] for kind in PRECISIONS for precision in PRECISIONS[kind]}
        for _ in range(int(turns)):
            for kind, precisions in PRECISIONS.items():
                llama = {t: run(sys.executable, HERE / "llama.py", f"{out}/{kind}.gguf", t, SECONDS)[0] for t in (1, 2)}
                for precision in precisions:
                    seen[precision].append({**ours(program, model, precision), "llama": llama})
    for kind, all in seen.items():
        for what in ("one", "batch", "prefill"):
            theirs = max(([turn["llama"][t][what] for turn in all] for t in (1, 2)), key=statistics.median)
            line = f"{kind:5} {what:8} llama.cpp {statistics.median(theirs):7.0f} tokens/s"
            for path in ("direct", "pipeline"):
                if what in all[0][path]:
                    line += f", {path} {ratio([turn[path][what] for turn in all], theirs)}"
            print(line)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
