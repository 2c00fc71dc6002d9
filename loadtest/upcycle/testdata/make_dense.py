"""Writes tiny dense GPT-2, BERT and BERT2BERT checkpoints as they are published, with logits by numpy in float64.

usage: make_dense.py [OUT_DIR [base NAME]]    (needs numpy)
OUT_DIR/{gpt2,bert,bert2bert}/: config.json, model.safetensors (float32, float16, bfloat16), golden.safetensors
With base the named one has the shape of GPT-2 small or BERT base with GPT-2's vocabulary, 512 positions and random weights.
The formulas are those of transformers' modeling_gpt2.py, modeling_bert.py and modeling_encoder_decoder.py, without dropout.
"""
import json, math, pathlib, struct, sys
import numpy as np

BASE = sys.argv[2:3] == ["base"]
V, D, L, H, F, POS, N = (50257, 768, 12, 12, 3072, 512, 9) if BASE else (40, 16, 2, 2, 24, 24, 9)
OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
rng = np.random.default_rng(9)

def brain(a):
    u = a.astype("<f4").view("<u4").astype(np.uint64)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype("<u2")

ENCODE = {"F32": lambda a: a.astype("<f4"), "F16": lambda a: a.astype("<f2"), "BF16": brain, "I32": lambda a: a.astype("<i4")}
WIDEN = {"F32": lambda a: a.astype("<f4"), "F16": lambda a: a.astype("<f2"), "BF16": lambda a: (brain(a).astype("<u4") << 16).view("<f4")}

def save(path, tensors, dtype):
    header, body, end = {}, [], 0
    for name, (a, own) in sorted((k, v if isinstance(v, tuple) else (v, dtype)) for k, v in tensors.items()):
        raw = ENCODE[own](a).tobytes()
        header[name] = dict(dtype=own, shape=list(a.shape), data_offsets=[end, end + len(raw)]); body.append(raw); end += len(raw)
    text = json.dumps(header).encode(); text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body))

def write(name, config, weights, dtype, golden):
    dst = OUT / name; dst.mkdir(parents=True, exist_ok=True)
    (dst / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save(dst / "model.safetensors", weights, dtype); save(dst / "golden.safetensors", golden, "F32")
    print(name, {k: np.shape(v[0] if isinstance(v, tuple) else v) for k, v in golden.items()}, golden["logits"].std())

class Weights(dict):
    """Random tensors, rounded to the stored type; uses count by the names that transformers has today."""
    def __init__(w, dtype, published=lambda n: n): w.dtype, w.published, w.files = dtype, published, {}
    def get(w, name, *shape):
        if name not in w:
            a = rng.standard_normal(shape) * deviation(name, shape) + (1 if "weight" in name and len(shape) == 1 else 0)
            w[name] = WIDEN[w.dtype](a).astype(float); w.files[w.published(name)] = w[name]
        return w[name]
    def linear(w, name, x, n): return x @ w.get(name + ".weight", n, x.shape[-1]).T + w.get(name + ".bias", n)
    def conv1d(w, name, x, n): return x @ w.get(name + ".weight", x.shape[-1], n) + w.get(name + ".bias", n)
    def norm(w, name, x, eps):
        c = x - x.mean(-1, keepdims=True)
        return c / np.sqrt((c * c).mean(-1, keepdims=True) + eps) * w.get(name + ".weight", D) + w.get(name + ".bias", D)

def deviation(name, shape):
    """Of a tensor's elements. In base tokens tell rows apart more than positions do, those more than segments, and biases hardly."""
    if BASE and len(shape) == 1: return 0.02
    if BASE: return next((s for part, s in (("word_emb", 0.05), ("wte", 0.05), ("position_emb", 0.02), ("wpe", 0.02), ("token_type", 0.01)) if part in name), min(shape) ** -0.5)
    return min(shape) ** -0.5 if len(shape) > 1 else 0.2

def softmax(x): e = np.exp(x - x.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)
def gelu(x): return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
def gelu_new(x): return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

def attend(q, k, v, causal):
    q, k, v = (a.reshape(len(a), H, -1).swapaxes(0, 1) for a in (q, k, v))
    s = q @ k.swapaxes(1, 2) / math.sqrt(D // H)
    if causal: s = np.where(np.tri(*s.shape[1:], dtype=bool), s, -np.inf)
    return (softmax(s) @ v).swapaxes(0, 1).reshape(-1, D)

def gpt2():
    w = Weights("F32"); ids = rng.integers(0, V, N)
    x = w.get("wte.weight", V, D)[ids] + w.get("wpe.weight", POS, D)[:N]
    for l in range(L):
        p = f"h.{l}."
        q, k, v = np.split(w.conv1d(p + "attn.c_attn", w.norm(p + "ln_1", x, 1e-5), 3 * D), 3, -1)
        x = x + w.conv1d(p + "attn.c_proj", attend(q, k, v, True), D)
        x = x + w.conv1d(p + "mlp.c_proj", gelu_new(w.conv1d(p + "mlp.c_fc", w.norm(p + "ln_2", x, 1e-5), 4 * D)), D)
        w.files[p + "attn.bias"] = np.tri(POS)[None, None]
    logits = w.norm("ln_f", x, 1e-5) @ w["wte.weight"].T
    config = dict(activation_function="gelu_new", architectures=["GPT2LMHeadModel"], attn_pdrop=0.1, bos_token_id=1, embd_pdrop=0.1, eos_token_id=1, initializer_range=0.02,
        layer_norm_epsilon=1e-05, model_type="gpt2", n_ctx=POS, n_embd=D, n_head=H, n_layer=L, n_positions=POS, resid_pdrop=0.1, summary_activation=None, summary_first_dropout=0.1,
        summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True, task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}}, vocab_size=V)
    write("gpt2", config, w.files, "F32", dict(input_ids=(ids, "I32"), logits=logits))

def body(w, p, ids, types, source=None, causal=False):
    e = p + "embeddings."
    x = w.get(e + "word_embeddings.weight", V, D)[ids] + w.get(e + "token_type_embeddings.weight", 2, D)[types] + w.get(e + "position_embeddings.weight", POS, D)[:len(ids)]
    x = w.norm(e + "LayerNorm", x, 1e-12)
    for l in range(L):
        q = f"{p}encoder.layer.{l}."
        for name, src in (("attention", x), ("crossattention", source)):
            if src is None: continue
            a = q + name + ".self."
            mixed = attend(w.linear(a + "query", x, D), w.linear(a + "key", x if name == "attention" else src, D), w.linear(a + "value", x if name == "attention" else src, D), causal and name == "attention")
            x = w.norm(q + name + ".output.LayerNorm", w.linear(q + name + ".output.dense", mixed, D) + x, 1e-12)
        y = w.linear(q + "output.dense", gelu(w.linear(q + "intermediate.dense", x, F)), D)
        x = w.norm(q + "output.LayerNorm", y + x, 1e-12)
    return x

def head(w, p, x, embedding):
    c = p + "cls.predictions."
    y = w.norm(c + "transform.LayerNorm", gelu(w.linear(c + "transform.dense", x, D)), 1e-12)
    return y @ w[embedding].T + w.get(c + "bias", V)

BERT = dict(attention_probs_dropout_prob=0.1, gradient_checkpointing=False, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=D, initializer_range=0.02, intermediate_size=F, layer_norm_eps=1e-12,
    max_position_embeddings=POS, model_type="bert", num_attention_heads=H, num_hidden_layers=L, pad_token_id=0, position_embedding_type="absolute", transformers_version="4.6.0.dev0", type_vocab_size=2, use_cache=True, vocab_size=V)

def bert():
    old = lambda n: n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    w = Weights("F16", old); ids = rng.integers(0, V, N); types = (np.arange(N) > 5).astype(int)
    logits = head(w, "", body(w, "bert.", ids, types), "bert.embeddings.word_embeddings.weight")
    for name, a in (("bert.pooler.dense.weight", rng.standard_normal((D, D))), ("bert.pooler.dense.bias", np.zeros(D)), ("cls.seq_relationship.weight", np.zeros((2, D))), ("cls.seq_relationship.bias", np.zeros(2))): w.files[name] = a
    w.files["cls.predictions.decoder.weight"] = w["bert.embeddings.word_embeddings.weight"]
    write("bert", dict(BERT, architectures=["BertForMaskedLM"]), w.files, "F16", dict(input_ids=(ids, "I32"), token_type_ids=(types, "I32"), logits=logits))

def bert2bert():
    w = Weights("BF16"); src, tgt = rng.integers(0, V, N), rng.integers(0, V, N - 3)
    encoded = body(w, "encoder.", src, np.zeros(N, int))
    logits = head(w, "decoder.", body(w, "decoder.bert.", tgt, np.zeros(N - 3, int), encoded, True), "decoder.bert.embeddings.word_embeddings.weight")
    w.files["encoder.pooler.dense.weight"], w.files["encoder.pooler.dense.bias"] = np.zeros((D, D)), np.zeros(D)
    # What transformers 4 wrote into every part of a composed config.
    rest = dict(_name_or_path="", bad_words_ids=None, chunk_size_feed_forward=0, cross_attention_hidden_size=None, diversity_penalty=0.0, do_sample=False, early_stopping=False, encoder_no_repeat_ngram_size=0,
        finetuning_task=None, id2label={"0": "LABEL_0", "1": "LABEL_1"}, is_encoder_decoder=False, length_penalty=1.0, max_length=20, min_length=0, no_repeat_ngram_size=0, num_beam_groups=1, num_beams=1, num_return_sequences=1,
        output_scores=False, prefix=None, pruned_heads={}, remove_invalid_values=False, repetition_penalty=1.0, return_dict=True, temperature=1.0, tie_encoder_decoder=False, tie_word_embeddings=True, top_k=50, top_p=1.0, torchscript=False, use_bfloat16=False)
    encoder = dict(BERT, **rest, add_cross_attention=False, is_decoder=False, architectures=["BertModel"])
    decoder = dict(BERT, **rest, add_cross_attention=True, is_decoder=True, architectures=["BertForMaskedLM"])
    write("bert2bert", dict(architectures=["EncoderDecoderModel"], bos_token_id=1, decoder=decoder, decoder_start_token_id=1, early_stopping=True, encoder=encoder, eos_token_id=2, is_encoder_decoder=True, length_penalty=2.0, max_length=142,
        min_length=56, model_type="encoder-decoder", no_repeat_ngram_size=3, num_beams=4, pad_token_id=0, tie_encoder_decoder=False, vocab_size=V), w.files, "BF16",
        dict(input_ids=(src, "I32"), decoder_input_ids=(tgt, "I32"), encoder_output=encoded, logits=logits))

for name, model in (("gpt2", gpt2), ("bert", bert), ("bert2bert", bert2bert)):
    if not BASE or sys.argv[3] == name: model()
