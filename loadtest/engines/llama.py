"""Times llama.cpp on a GGUF file: llama.py FILE THREADS SECONDS prints tokens/s of one stream, 32 streams and prompts of 512 as JSON.

Needs: pip install cyllama==0.2.18 (llama.cpp b9190).
"""
import json
import random
import sys
import time

from cyllama.llama import llama_cpp as llama

PROMPT, STREAMS, CONTEXT = 16, 32, 512


class Engine:
    def __init__(self, path, threads):
        llama.llama_backend_init()
        self.model = llama.LlamaModel(path_model=path, params=llama.LlamaModelParams(), verbose=False)
        p = llama.LlamaContextParams()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max, p.kv_unified = STREAMS * CONTEXT, CONTEXT, CONTEXT, STREAMS, False
        p.n_threads = p.n_threads_batch = threads
        self.context = llama.LlamaContext(self.model, p, verbose=False)
        self.batch = llama.LlamaBatch(n_tokens=CONTEXT, embd=0, n_seq_max=STREAMS)
        self.random = random.Random(1)

    def step(self, rows):
        """Computes rows of (position, sequence, whether its logits are wanted)."""
        self.batch.reset()
        for position, sequence, wanted in rows:
            self.batch.add(self.random.randrange(1, 8192), position, [sequence], wanted)
        self.context.decode(self.batch)
        self.context.synchronize()

    def decode(self, streams, seconds):
        self.context.kv_cache_clear()
        for s in range(streams):
            self.step([(p, s, p == PROMPT - 1) for p in range(PROMPT)])
        begin, position = time.perf_counter(), PROMPT
        while time.perf_counter() - begin < seconds and position < CONTEXT:
            self.step([(position, s, True) for s in range(streams)])
            position += 1
        return streams * (position - PROMPT) / (time.perf_counter() - begin)

    def prefill(self, seconds):
        took = prompts = 0
        while took < seconds:
            self.context.kv_cache_clear()
            begin = time.perf_counter()
            self.step([(p, 0, p == CONTEXT - 1) for p in range(CONTEXT)])
            took, prompts = took + time.perf_counter() - begin, prompts + 1
        return CONTEXT * prompts / took


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    engine, seconds = Engine(sys.argv[1], int(sys.argv[2])), float(sys.argv[3])
    engine.decode(1, 0.05)
    print(json.dumps({"one": engine.decode(1, seconds), "batch": engine.decode(STREAMS, seconds), "prefill": engine.prefill(seconds)}))
