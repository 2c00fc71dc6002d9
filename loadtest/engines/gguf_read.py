"""Compares what Switchyard and llama.cpp make of one GGUF file: gguf_read.py SWITCHYARD FILE.gguf CONFIG_DIR [TYPE...]

For the file, and for what llama.cpp's quantiser makes of it (types such as Q4_K_M, Q6_K, Q8_0), the script writes a twin whose tensors are
the same numbers in float32, so that llama.cpp does not round rows to 8 bits, and lets it compute logits and greedy tokens. `switchyard
verify` compares its own, of the quantised file, with these. CONFIG_DIR has the model's config.json.

Needs: pip install numpy gguf==0.19.0 safetensors, and what llama.py needs
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf
import llama_cpp as llama
import numpy as np
from safetensors.numpy import save_file

from llama import Engine

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


class Logits(Engine):
    def __init__(self, path, vocab):
        super().__init__(path, n_ctx=256, n_batch=256, n_ubatch=256, type_k=0, type_v=0, flash_attn_type=0)  # all in float32
        self.vocab = vocab

    def logits(self, ids):
        self.clear()
        self.step([(int(token), position, 0, True) for position, token in enumerate(ids)])
        return np.stack([np.ctypeslib.as_array(llama.llama_get_logits_ith(self.context, i), (self.vocab,)).copy() for i in range(len(ids))])


def check(switchyard, path, config):
    vocab = json.loads((config / "config.json").read_text())["vocab_size"]
    with tempfile.TemporaryDirectory() as out:
        out = pathlib.Path(out)
        shutil.copy(config / "config.json", out)
        shutil.copy(path, out / "model.gguf")
        twin(path, out / "twin")
        engine = Logits(out / "twin", vocab)
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
    failed = check(switchyard, path, pathlib.Path(config))
    for kind in types:
        with tempfile.TemporaryDirectory() as out:
            p = llama.llama_model_quantize_default_params()
            p.ftype = getattr(gguf.LlamaFileType, f"MOSTLY_{kind}").value
            p.allow_requantize = True
            quantised = f"{out}/{kind}.gguf"
            llama.llama_model_quantize(str(path).encode(), quantised.encode(), p)
            failed += check(switchyard, quantised, pathlib.Path(config))
    return failed


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
