"""Writes a Qwen2-MoE checkpoint in bf16, as of `switchyard demo`'s model, as GGUF: export.py MODEL_DIR OUT.gguf bf16|q8|q4

Needs: pip install numpy gguf==0.19.0. llama.cpp's qwen2moe does not normalise the weights of the experts that a row
chose. Where the model does, llama.cpp's tokens differ; its work for a row is the same.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

KINDS = {"bf16": Type.BF16, "q8": Type.Q8_0, "q4": Type.Q4_0}


def read(path):
    """The tensors of a safetensors file in bf16, as float32."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, of in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if of["dtype"] != "BF16":
            sys.exit(f"{path}: {name} is {of['dtype']}, not BF16")
        begin, end = of["data_offsets"]
        bits = np.frombuffer(data[8 + size + begin : 8 + size + end], np.uint16).astype(np.uint32) << 16
        tensors[name] = bits.view(np.float32).reshape(of["shape"])
    return tensors


def settings(w, config, tokenizer):
    w.add_name("demo")
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config["num_key_value_heads"])
    w.add_key_length(config["head_dim"])
    w.add_value_length(config["head_dim"])
    w.add_rope_freq_base(config["rope_theta"])
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_expert_count(config["num_experts"])
    w.add_expert_used_count(config["num_experts_per_tok"])
    w.add_expert_feed_forward_length(config["moe_intermediate_size"])
    w.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    w.add_vocab_size(config["vocab_size"])
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


def matrices(t, config):
    """The tensors by llama.cpp's names, each with whether it is to have fewer bits."""
    yield "token_embd.weight", t["model.embed_tokens.weight"], True
    yield "output.weight", t["model.embed_tokens.weight"], True
    yield "output_norm.weight", t["model.norm.weight"], False
    for layer in range(config["num_hidden_layers"]):
        of, to = f"model.layers.{layer}.", f"blk.{layer}."
        yield to + "attn_norm.weight", t[of + "input_layernorm.weight"], False
        yield to + "ffn_norm.weight", t[of + "post_attention_layernorm.weight"], False
        for x in "qkv":
            yield to + f"attn_{x}.weight", t[of + f"self_attn.{x}_proj.weight"], True
            yield to + f"attn_{x}.bias", t[of + f"self_attn.{x}_proj.bias"], False
        yield to + "attn_output.weight", t[of + "self_attn.o_proj.weight"], True
        yield to + "ffn_gate_inp.weight", t[of + "mlp.gate.weight"], False
        yield to + "ffn_gate_inp_shexp.weight", t[of + "mlp.shared_expert_gate.weight"].reshape(-1), False
        for x in ("gate", "up", "down"):
            experts = [t[of + f"mlp.experts.{e}.{x}_proj.weight"] for e in range(config["num_experts"])]
            yield to + f"ffn_{x}_exps.weight", np.stack(experts), True
            yield to + f"ffn_{x}_shexp.weight", t[of + f"mlp.shared_expert.{x}_proj.weight"], True


def export(model, out, kind):
    model = pathlib.Path(model)
    config = json.loads((model / "config.json").read_text())
    w = gguf.GGUFWriter(str(out), "qwen2moe")
    settings(w, config, json.loads((model / "tokenizer.json").read_text()))
    for name, a, fewer in matrices(read(model / "model.safetensors"), config):
        if fewer:
            w.add_tensor(name, gguf.quants.quantize(a, KINDS[kind]), raw_dtype=KINDS[kind])
        else:
            w.add_tensor(name, a.astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in KINDS:
        sys.exit(__doc__)
    export(*sys.argv[1:])
