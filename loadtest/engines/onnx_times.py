"""Times ONNX Runtime on a checkpoint: onnx_times.py MODEL_DIR OUT_DIR THREADS SECONDS prints tokens/s as llama.py does, as a JSON line.

PyTorch exports transformers' model in float32, one graph for prompts and for steps behind them. Its way `batched_mm` gathers each row's
experts; the others cannot be exported, as what they compute depends on which experts rows chose. OUT_DIR keeps the export.
Needs: pip install torch transformers onnx onnxruntime onnxscript
"""
import json
import pathlib
import sys
import time

import numpy as np

PROMPT, STREAMS, CONTEXT = 16, 32, 512


def export(path, out):
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, experts_implementation="batched_mm", attn_implementation="eager").eval()
    c = model.config
    shape = (2, c.num_key_value_heads, 3, c.head_dim)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, past):
            cache = transformers.DynamicCache([(past[2 * i], past[2 * i + 1]) for i in range(c.num_hidden_layers)])
            positions = torch.arange(ids.shape[1])[None] + past[0].shape[2]
            y = self.model(input_ids=ids, past_key_values=cache, position_ids=positions, use_cache=True, logits_to_keep=1)
            return y.logits, *[x for layer in y.past_key_values.layers for x in (layer.keys, layer.values)]

    past = [torch.randn(shape) for _ in range(2 * c.num_hidden_layers)]
    batch, rows, before = torch.export.Dim("batch"), torch.export.Dim("rows"), torch.export.Dim("before")
    names = [f"past{i}" for i in range(len(past))]
    torch.onnx.export(
        Step(), (torch.randint(1, c.vocab_size, (2, 5)), past), str(out), dynamo=True, external_data=False, input_names=["ids", *names],
        output_names=["logits", *[f"now{i}" for i in range(len(past))]],
        dynamic_shapes=({0: batch, 1: rows}, [{0: batch, 2: before}] * len(past)),
    )
    (out.parent / "config.json").write_text(json.dumps({"layers": c.num_hidden_layers, "heads": c.num_key_value_heads, "size": c.head_dim, "vocabulary": c.vocab_size}))


class Engine:
    def __init__(self, path, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.of = json.loads((path.parent / "config.json").read_text())
        self.random = np.random.default_rng(1)

    def step(self, streams, rows, past):
        ids = self.random.integers(1, self.of["vocabulary"], (streams, rows))
        return self.session.run(None, {"ids": ids, **{f"past{i}": p for i, p in enumerate(past)}})[1:]

    def empty(self, streams):
        return [np.zeros((streams, self.of["heads"], 0, self.of["size"]), np.float32)] * (2 * self.of["layers"])

    def decode(self, streams, seconds):
        past, steps = self.step(streams, PROMPT, self.empty(streams)), 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds and PROMPT + steps < CONTEXT:
            past, steps = self.step(streams, 1, past), steps + 1
        return streams * steps / (time.perf_counter() - begin)

    def prefill(self, seconds):
        begin, prompts = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            self.step(1, CONTEXT, self.empty(1))
            prompts += 1
        return CONTEXT * prompts / (time.perf_counter() - begin)


def main(path, out, threads, seconds):
    file = pathlib.Path(out) / "model.onnx"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        export(path, file)
    engine, seconds = Engine(file, int(threads)), float(seconds)
    engine.decode(1, 0.05), engine.decode(STREAMS, 0.05)
    print(json.dumps({"one": engine.decode(1, seconds), "batch": engine.decode(STREAMS, seconds), "prefill": engine.prefill(seconds)}))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
