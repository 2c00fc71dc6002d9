"""What is timed: the shapes of the Go benchmarks, so that both can be read side by side.

They are also in pkg/compute/device/cuda/gpu_test.go, and the models' in
pkg/compute/model/shapes.go (switchyard bench --synthetic).
"""

from typing import NamedTuple


class Experts(NamedTuple):
    name: str
    hidden: int
    width: int
    experts: int
    rows: tuple  # of an expert


class Attend(NamedTuple):
    name: str
    heads: int
    kv_heads: int
    head: int
    rows: int
    context: int


class Latent(NamedTuple):
    name: str
    heads: int
    rank: int
    rope: int
    rows: int
    context: int


class Generate(NamedTuple):
    name: str
    config: dict
    batches: tuple
    prompt: int  # tokens before a batch's first
    tokens: int  # of each sequence of a batch
    first: int  # tokens of the prompt whose answer's first token is timed


class Shapes(NamedTuple):
    ceiling: int  # rows and columns of the matrices of the product
    copied: int  # bytes
    most_rows: int  # of a call: of fewer experts if they would be more
    experts: tuple
    attend: tuple
    latent: tuple
    generate: tuple


MIXTRAL_1B = {
    "model_type": "mixtral", "num_hidden_layers": 8, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 32768, "num_local_experts": 8,
    "num_experts_per_tok": 2, "intermediate_size": 4096,
}  # fmt: skip

QWEN3_30B_A3B = {
    "model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
    "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "tie_word_embeddings": False,
}  # fmt: skip

TINY = MIXTRAL_1B | {
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 320, "max_position_embeddings": 4096, "num_local_experts": 4, "intermediate_size": 96,
}  # fmt: skip

ROWS = (1, 8, 64, 512, 4096)
BATCHES = (1, 32, 256)

FULL = Shapes(
    ceiling=8192,
    copied=4 << 30,
    most_rows=8192,
    experts=(
        Experts("mixtral-8x7b", 4096, 14336, 8, ROWS),
        Experts("qwen3-30b-a3b", 2048, 768, 64, ROWS),
        Experts("deepseek-v3", 7168, 2048, 16, ROWS),
    ),
    attend=(
        Attend("qwen3-30b-a3b", 32, 4, 128, 64, 4096),
        Attend("mixtral-8x7b", 32, 8, 128, 32, 8192),
    ),
    latent=(Latent("deepseek-v3", 128, 512, 64, 64, 4096),),
    generate=(
        Generate("mixtral-1b", MIXTRAL_1B, BATCHES, prompt=16, tokens=33, first=2048),
        Generate("qwen3-30b-a3b", QWEN3_30B_A3B, BATCHES, prompt=16, tokens=33, first=2048),
    ),
)

# What a processor computes in seconds, and Triton's interpreter too.
QUICK = Shapes(
    ceiling=256,
    copied=1 << 20,
    most_rows=160,
    experts=(Experts("tiny", 256, 512, 3, (1, 40, 130)),),
    attend=(Attend("tiny", 4, 2, 32, 2, 300),),
    latent=(Latent("tiny", 3, 32, 16, 2, 300),),
    generate=(Generate("tiny", TINY, (1, 3), prompt=5, tokens=17, first=16),),
)
