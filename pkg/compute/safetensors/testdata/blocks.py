"""Writes blocks.json: for each type of GGUF's blocks, two blocks of random bytes and what gguf makes of them.

Needs: pip install numpy gguf==0.19.0
"""
import base64
import json
import pathlib

import gguf
import numpy as np

r = np.random.default_rng(1)
out = {}
for name in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]:
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = r.integers(0, 256, (2, size), dtype=np.uint8)
    scales = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}.get(name, [0])
    for at in scales:
        blocks[:, at : at + 2] = r.normal(0, 0.01, (2, 1)).astype(np.float16).view(np.uint8)
    numbers = gguf.quants.dequantize(blocks, kind).astype("<f4")
    out[name] = {"blocks": base64.b64encode(blocks.tobytes()).decode(), "floats": base64.b64encode(numbers.tobytes()).decode()}
pathlib.Path(__file__).with_name("blocks.json").write_text(json.dumps(out, indent=1) + "\n")
