"""Writes a Mixture-of-Experts checkpoint in bf16 (qwen2_moe, qwen3_moe, mixtral) as GGUF: export.py MODEL_DIR OUT.gguf bf16|q8|q4

It is for measuring: a folder without tokenizer.json, as of shape.py, makes a file without a vocabulary. Needs: pip install numpy
gguf==0.19.0. llama.cpp's qwen2moe does not normalise the weights of the experts that a row chose. Where the model does, llama.cpp's
tokens differ; its work for a row is the same.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

KINDS = {"bf16": Type.BF16, "q8": Type.Q8_0, "q4": Type.Q4_0}
ARCHITECTURES = {"qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "mixtral": "llama"}


class Tensors:
    """The tensors of a safetensors file in bf16, each as float32 when it is asked for."""

    def __init__(self, path):
        self.data = np.memmap(path, np.uint8, "r")
        size = int.from_bytes(bytes(self.data[:8]), "little")
        self.header, self.begin = json.loads(bytes(self.data[8 : 8 + size])), 8 + size

    def __contains__(self, name):
        return name in self.header

    def __getitem__(self, name):
        of = self.header[name]
        if of["dtype"] != "BF16":
            sys.exit(f"{name} is {of['dtype']}, not BF16")
        begin, end = of["data_offsets"]
        bits = self.data[self.begin + begin : self.begin + end].view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(of["shape"])


def settings(w, config):
    w.add_name(config["model_type"])
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config["num_key_value_heads"])
    w.add_key_length(config["head_dim"])
    w.add_value_length(config["head_dim"])
    w.add_rope_dimension_count(config["head_dim"])
    w.add_rope_freq_base(config["rope_theta"])
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_expert_count(experts_of(config))
    w.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        w.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in config:
        w.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    w.add_vocab_size(config["vocab_size"])


def vocabulary(w, config, path):
    if not path.exists():
        w.add_tokenizer_model("no_vocab")
        return
    tokenizer = json.loads(path.read_text())
    tokens = [f"[PAD{i}]" for i in range(config["vocab_size"])]
    for token, i in tokenizer["model"]["vocab"].items():
        tokens[i] = token
    for added in tokenizer.get("added_tokens", []):
        tokens[added["id"]] = added["content"]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([3 if i == 0 else 1 for i in range(len(tokens))])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
    w.add_bos_token_id(config["bos_token_id"])
    w.add_eos_token_id(config["eos_token_id"])


def experts_of(config):
    return config.get("num_experts") or config["num_local_experts"]


def paired(a, heads):
    """The rows of queries or keys as llama.cpp's llama has them: each half's row i of a head beside the other's."""
    return a.reshape(heads, 2, a.shape[0] // heads // 2, a.shape[1]).swapaxes(1, 2).reshape(a.shape)


def matrices(t, config):
    """The tensors by llama.cpp's names, each as a list of those that are stacked, and whether it is to have fewer bits."""
    mixtral = config["model_type"] == "mixtral"
    head = "lm_head.weight" if "lm_head.weight" in t else "model.embed_tokens.weight"
    yield "token_embd.weight", [t["model.embed_tokens.weight"]], True
    yield "output.weight", [t[head]], True
    yield "output_norm.weight", [t["model.norm.weight"]], False
    for layer in range(config["num_hidden_layers"]):
        of, to = f"model.layers.{layer}.", f"blk.{layer}."
        mlp = of + ("block_sparse_moe." if mixtral else "mlp.")
        for name, stored in {"attn_norm.weight": "input_layernorm.weight", "ffn_norm.weight": "post_attention_layernorm.weight",
                             "attn_q_norm.weight": "self_attn.q_norm.weight", "attn_k_norm.weight": "self_attn.k_norm.weight",
                             **{f"attn_{x}.bias": f"self_attn.{x}_proj.bias" for x in "qkv"}}.items():
            if of + stored in t:
                yield to + name, [t[of + stored]], False
        heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
        for x in "qkv":
            a = t[of + f"self_attn.{x}_proj.weight"]
            yield to + f"attn_{x}.weight", [paired(a, heads[x]) if mixtral and x in heads else a], True
        yield to + "attn_output.weight", [t[of + "self_attn.o_proj.weight"]], True
        yield to + "ffn_gate_inp.weight", [t[mlp + "gate.weight"]], False
        names = {"gate": "w1", "up": "w3", "down": "w2"} if mixtral else {x: f"{x}_proj" for x in ("gate", "up", "down")}
        for x, name in names.items():
            yield to + f"ffn_{x}_exps.weight", (t[f"{mlp}experts.{e}.{name}.weight"] for e in range(experts_of(config))), True
        if mlp + "shared_expert_gate.weight" in t:
            yield to + "ffn_gate_inp_shexp.weight", [t[mlp + "shared_expert_gate.weight"].reshape(-1)], False
            for x, name in names.items():
                yield to + f"ffn_{x}_shexp.weight", [t[mlp + f"shared_expert.{name}.weight"]], True


def export(model, out, kind):
    model = pathlib.Path(model)
    config = json.loads((model / "config.json").read_text())
    w = gguf.GGUFWriter(str(out), ARCHITECTURES[config["model_type"]], use_temp_file=True)
    settings(w, config)
    vocabulary(w, config, model / "tokenizer.json")
    for name, parts, fewer in matrices(Tensors(model / "model.safetensors"), config):
        if fewer:
            parts = [gguf.quants.quantize(a, KINDS[kind]) for a in parts]
            w.add_tensor(name, parts[0] if len(parts) == 1 else np.stack(parts), raw_dtype=KINDS[kind])
        else:
            w.add_tensor(name, parts[0].astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in KINDS:
        sys.exit(__doc__)
    export(*sys.argv[1:])
