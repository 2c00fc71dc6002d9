"""Times transformers on a checkpoint, on the processor: transformers_times.py MODEL_DIR THREADS SECONDS prints tokens/s as llama.py does, for
each type of weights and way of computing experts that transformers has, as JSON lines.

Needs: pip install torch transformers
"""
import json
import sys
import time

import torch
import transformers

PROMPT, STREAMS, CONTEXT = 16, 32, 512
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
WAYS = ("batched_mm", "grouped_mm")  # "eager" took longer for all three in float32


class Engine:
    def __init__(self, path, dtype, way):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype, experts_implementation=way).eval()
        self.vocabulary = self.model.config.vocab_size

    def tokens(self, rows, columns):
        return torch.randint(1, self.vocabulary, (rows, columns))

    @torch.inference_mode()
    def decode(self, streams, seconds):
        cache = self.model(self.tokens(streams, PROMPT), use_cache=True, logits_to_keep=1).past_key_values
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds and PROMPT + steps < CONTEXT:
            self.model(self.tokens(streams, 1), past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].argmax(-1)
            steps += 1
        return streams * steps / (time.perf_counter() - begin)

    @torch.inference_mode()
    def prefill(self, seconds):
        begin, prompts = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            self.model(self.tokens(1, CONTEXT), use_cache=True, logits_to_keep=1)
            prompts += 1
        return CONTEXT * prompts / (time.perf_counter() - begin)


def main(path, threads, seconds):
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    for kind, dtype in TYPES.items():
        for way in WAYS:
            engine = Engine(path, dtype, way)
            engine.decode(1, 0.05), engine.decode(STREAMS, 0.05), engine.prefill(0.05)
            seen = {"one": engine.decode(1, float(seconds)), "batch": engine.decode(STREAMS, float(seconds)), "prefill": engine.prefill(float(seconds))}
            print(json.dumps({"type": kind, "experts": way, **seen}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
