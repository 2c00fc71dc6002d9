"""Compares Switchyard with transformers and ONNX Runtime on a checkpoint, in turns: others.py SWITCHYARD MODEL_DIR ONNX_DIR [TURNS]

Prints, for one stream, 32 streams and prompts of 512, the tokens/s of direct calls and of the pipeline with weights in bf16, and of each
other engine with one thread or two and its types of weights and ways of computing experts, whichever is fastest in the median; and the
ratio of direct calls and it: median, least and most of the turns. ONNX_DIR keeps onnx_times.py's export, which is made before.
Needs what transformers_times.py and onnx_times.py need.
"""
import collections
import statistics
import sys

from compare import HERE, SECONDS, ours, ratio, run

MEASURES = ("one", "batch", "prefill")


def others(model, onnx):
    for threads in (1, 2):
        for line in run(sys.executable, HERE / "transformers_times.py", model, threads, SECONDS):
            yield "transformers", (line["type"], line["experts"], threads), line
        yield "onnxruntime", ("f32", threads), run(sys.executable, HERE / "onnx_times.py", model, onnx, threads, SECONDS)[0]


def main(program, model, onnx, turns=5):
    run(sys.executable, HERE / "onnx_times.py", model, onnx, 1, "0.01")
    us, them = [], collections.defaultdict(lambda: collections.defaultdict(list))
    for _ in range(int(turns)):
        us.append(ours(program, model, "bf16"))
        for engine, settings, seen in others(model, onnx):
            them[engine][settings].append(seen)
    for what in MEASURES:
        direct = [turn["direct"][what] for turn in us]
        piped = [turn["pipeline"][what] for turn in us if what in turn["pipeline"]]
        print(f"{what:8} direct {statistics.median(direct):.1f} tokens/s" + (f", pipeline {statistics.median(piped):.1f}" if piped else ""))
        for engine, by_settings in them.items():
            rates = {s: [seen[what] for seen in all] for s, all in by_settings.items()}
            best = max(rates, key=lambda s: statistics.median(rates[s]))
            line = f"         {engine} {statistics.median(rates[best]):.1f} tokens/s {best}: direct {ratio(direct, rates[best])}"
            print(line + (f", pipeline {ratio(piped, rates[best])}" if piped else ""), flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
