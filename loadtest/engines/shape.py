"""Writes a checkpoint of some layers in the shape of a published model, with random weights in bf16: shape.py NAME LAYERS OUT_DIR

NAME is qwen3-30b-a3b or mixtral-8x7b. The vocabulary has 1,024 ids, so that embedding and head do not outweigh the layers.
Needs: pip install numpy
"""
import json
import pathlib
import sys

import numpy as np

VOCABULARY = 1024
SHAPES = {
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144, "norm_topk_prob": True,
        "decoder_sparse_step": 1, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "max_position_embeddings": 40960,
    },
    "mixtral-8x7b": {
        "model_type": "mixtral", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 14336, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
        "max_position_embeddings": 32768,
    },
}


def tensors(c):
    """The shapes of all tensors by their names."""
    d, q, kv = c["hidden_size"], c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    yield "model.embed_tokens.weight", (c["vocab_size"], d)
    yield "lm_head.weight", (c["vocab_size"], d)
    yield "model.norm.weight", (d,)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (d,)
        yield at + "post_attention_layernorm.weight", (d,)
        for name, shape in {"q": (q, d), "k": (kv, d), "v": (kv, d), "o": (d, q)}.items():
            yield f"{at}self_attn.{name}_proj.weight", shape
        if c["model_type"] == "qwen3_moe":
            yield at + "self_attn.q_norm.weight", (c["head_dim"],)
            yield at + "self_attn.k_norm.weight", (c["head_dim"],)
            mlp, names, experts, width = at + "mlp.", ("gate_proj", "up_proj", "down_proj"), c["num_experts"], c["moe_intermediate_size"]
        else:
            mlp, names, experts, width = at + "block_sparse_moe.", ("w1", "w3", "w2"), c["num_local_experts"], c["intermediate_size"]
        yield mlp + "gate.weight", (experts, d)
        for e in range(experts):
            for name, shape in zip(names, ((width, d), (width, d), (d, width))):
                yield f"{mlp}experts.{e}.{name}.weight", shape


def bf16(a):
    return (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def main(name, layers, out):
    config = {**SHAPES[name], "num_hidden_layers": int(layers), "vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}
    out = pathlib.Path(out)
    out.mkdir(parents=True)
    (out / "config.json").write_text(json.dumps(config))
    header, size = {}, 0
    for tensor, shape in tensors(config):
        begin, size = size, size + 2 * int(np.prod(shape))
        header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, size]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(1)
    normal = random.standard_normal(1 << 16)
    with open(out / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for tensor, shape in tensors(config):
            if len(shape) == 1:
                f.write(bf16(np.ones(shape)).tobytes())
                continue
            table = bf16(normal * (1 if "embed" in tensor else shape[1] ** -0.5))
            f.write(table[random.integers(0, 1 << 16, int(np.prod(shape)), np.uint16)].tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
