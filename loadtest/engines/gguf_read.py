"""Compares what Switchyard and llama.cpp make of one GGUF file: gguf_read.py SWITCHYARD FILE.gguf CONFIG_DIR [TYPE...]

For the file, and for what llama.cpp's quantiser makes of it (types such as Q4_K_M, Q6_K, Q8_0), the script writes a twin whose tensors are
the same numbers in float32, so that llama.cpp does not round rows to 8 bits, and lets it compute logits and greedy tokens. `switchyard
verify` compares its own, of the quantised file, with these. CONFIG_DIR has the model's config.json.

Needs: pip install numpy gguf==0.19.0 safetensors cyllama==0.2.18
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf
import numpy as np
from cyllama.llama import llama_cpp as llama
from safetensors.numpy import save_file

TOKENS, PROMPT = 48, 24


def twin(source, out):
    """Copies a GGUF file with all tensors in float32."""
    r = gguf.GGUFReader(source)
    w = gguf.GGUFWriter(out, bytes(r.fields["general.architecture"].parts[-1]).decode())
    for f in r.fields.values():
        if f.name.startswith("GGUF.") or f.name in ("general.architecture", "general.file_type"):
            continue
        sub = f.types[1] if f.types[0] == gguf.GGUFValueType.ARRAY else None
        w.add_key_value(f.name, f.contents(), f.types[0], sub_type=sub)
    for t in r.tensors:
        w.add_tensor(t.name, gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in reversed(t.shape)]))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class Model(llama.LlamaModel):
    """Has the attribute that get_logits_ith reads, which cyllama 0.2.18 forgot."""

    @property
    def n_vocab(self):
        return self.get_vocab().n_vocab


class Engine:
    def __init__(self, path):
        self.model = Model(path_model=str(path), params=llama.LlamaModelParams(), verbose=False)
        p = llama.LlamaContextParams()
        p.n_ctx = p.n_batch = p.n_ubatch = 256
        p.type_k = p.type_v = 0  # keys and values in float32, too
        p.flash_attn_type = 0  # none
        self.context = llama.LlamaContext(self.model, p, verbose=False)

    def logits(self, ids):
        self.context.kv_cache_clear()
        batch = llama.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
        for position, token in enumerate(ids):
            batch.add(int(token), position, [0], True)
        self.context.decode(batch)
        return np.stack([np.array(self.context.get_logits_ith(i), np.float32) for i in range(len(ids))])


def check(switchyard, path, config):
    vocab = json.loads((config / "config.json").read_text())["vocab_size"]
    with tempfile.TemporaryDirectory() as out:
        out = pathlib.Path(out)
        shutil.copy(config / "config.json", out)
        shutil.copy(path, out / "model.gguf")
        twin(path, out / "twin")
        engine = Engine(out / "twin")
        ids = np.random.default_rng(1).integers(3, vocab, TOKENS)
        logits = engine.logits(ids)
        greedy = list(ids[:PROMPT])
        while len(greedy) < TOKENS:
            greedy.append(int(engine.logits(greedy)[-1].argmax()))
        save_file({"input_ids": ids[None].astype(np.int64), "logits": logits[None], "prefix_logits": logits[None, :PROMPT],
                   "greedy_ids": np.array([greedy], np.int64)}, out / "golden.safetensors")
        (out / "golden.json").write_text(json.dumps({"greedy_prompt": PROMPT, "smallest_greedy_margin": 0}))
        done = subprocess.run([switchyard, "verify", str(out)], capture_output=True, text=True)
        print(pathlib.Path(path).name, done.stdout.strip() or done.stderr.strip(), flush=True)
        return done.returncode


def main(switchyard, path, config, *types):
    llama.llama_backend_init()
    failed = check(switchyard, path, pathlib.Path(config))
    for kind in types:
        with tempfile.TemporaryDirectory() as out:
            p = llama.LlamaModelQuantizeParams()
            p.ftype = getattr(gguf.LlamaFileType, f"MOSTLY_{kind}").value
            p.allow_requantize = True
            quantised = f"{out}/{kind}.gguf"
            llama.model_quantize(str(path), quantised, p)
            failed += check(switchyard, quantised, pathlib.Path(config))
    return failed


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
