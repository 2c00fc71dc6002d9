"""Times llama.cpp on a GGUF file: llama.py FILE THREADS SECONDS on|off [PROMPT] prints as JSON tokens/s of one stream and 32 streams behind prompts
of so many tokens (16), of prompts of 512 (prefill), and of such where all positions have logits (scored), with flash attention or without.

Where a position has no logits, llama.cpp leaves out its experts of the last layer: of a model of one layer, all experts but for the last row's.

Needs llama.cpp built for this processor, since published wheels have no AVX-512:
CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python==0.3.36
"""
import json
import random
import sys
import time

import llama_cpp as llama

STREAMS, CONTEXT = 32, 512


class Engine:
    """A model of llama.cpp, and a context of such settings."""

    def __init__(self, path, **settings):
        llama.llama_backend_init()
        self.silent = llama.llama_log_callback(lambda *_: None)
        llama.llama_log_set(self.silent, None)
        self.model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not self.model:
            sys.exit(f"{path}: llama.cpp cannot read it")
        p = llama.llama_context_default_params()
        for name, value in settings.items():
            setattr(p, name, value)
        self.context = llama.llama_init_from_model(self.model, p)
        self.batch = llama.llama_batch_init(p.n_batch, 0, 1)

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def step(self, rows):
        """Computes rows of (token, position, sequence, whether its logits are wanted)."""
        b = self.batch
        b.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, wanted
            b.seq_id[i][0] = sequence
        if code := llama.llama_decode(self.context, b):
            sys.exit(f"llama_decode: {code}")
        llama.llama_synchronize(self.context)


class Timed(Engine):
    def __init__(self, path, threads, flash, prompt):
        super().__init__(path, n_ctx=STREAMS * CONTEXT, n_batch=CONTEXT, n_ubatch=CONTEXT, n_seq_max=STREAMS, kv_unified=False, n_threads=threads, n_threads_batch=threads,
                         flash_attn_type=int(flash))
        self.random, self.prompt = random.Random(1), prompt
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))

    def draw(self):
        return self.random.randrange(1, self.vocabulary)

    def decode(self, streams, seconds):
        self.clear()
        for s in range(streams):
            self.step([(self.draw(), p, s, p == self.prompt - 1) for p in range(self.prompt)])
        begin, position = time.perf_counter(), self.prompt
        while time.perf_counter() - begin < seconds and position < CONTEXT:
            self.step([(self.draw(), position, s, True) for s in range(streams)])
            position += 1
        return streams * (position - self.prompt) / (time.perf_counter() - begin)

    def prefill(self, seconds, all=False):
        took = prompts = 0
        while took < seconds:
            self.clear()
            begin = time.perf_counter()
            self.step([(self.draw(), p, 0, all or p == CONTEXT - 1) for p in range(CONTEXT)])
            took, prompts = took + time.perf_counter() - begin, prompts + 1
        return CONTEXT * prompts / took


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6) or sys.argv[4] not in ("on", "off"):
        sys.exit(__doc__)
    engine, seconds = Timed(sys.argv[1], int(sys.argv[2]), sys.argv[4] == "on", int((sys.argv + ["16"])[5])), float(sys.argv[3])
    engine.decode(1, 0.05)
    print(json.dumps({"one": engine.decode(1, seconds), "batch": engine.decode(STREAMS, seconds),
                      "prefill": engine.prefill(seconds), "scored": engine.prefill(seconds, all=True)}))
