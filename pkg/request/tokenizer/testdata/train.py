#!/usr/bin/env python3
"""Trains small tokenizers in the configuration of published models, of which no
file can be kept here: tokenizer.json in Qwen's, DeepSeek's, gpt-oss', Mixtral's
and Phi's style, and BERT's. The texts are public ones and are not kept.

    pip install tokenizers==0.23.3 && python3 train.py CORPUS_DIR
"""
import gzip
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

here = pathlib.Path(__file__).parent
SIZE = 1500
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = ENDING + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + ENDING + "?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + ENDING + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", SPACES])
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
             "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼ"
    "ℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
DEEPSEEK2 = ["[\r\n]", r"\s?[" + LETTERS + "]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+"]


def texts(corpus):
    """The beginning of each file."""
    for path in sorted(pathlib.Path(corpus).glob("*.txt.gz")):
        with gzip.open(path) as f:
            yield f.read(60_000).decode("utf-8", "ignore")


def splits(patterns, *more):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(steps + list(more) + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(corpus, pre, special, added=(), normalizer=None, bos=None, **kw):
    t = Tokenizer(models.BPE(**kw))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts(corpus), trainers.BpeTrainer(vocab_size=SIZE, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=special))
    t.add_tokens([AddedToken(a, normalized=False) for a in added])
    if bos:
        t.post_processor = processors.TemplateProcessing(single=bos + " $A", special_tokens=[(bos, t.token_to_id(bos))])
    return t


def pieces(corpus):
    """The vocabulary and merges of a SentencePiece-style model: words begin with
    a visible blank, and rare characters are left to their bytes."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(texts(corpus), trainers.BpeTrainer(vocab_size=SIZE, limit_alphabet=400, show_progress=False))
    model = json.loads(t.to_str())["model"]
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + sorted(model["vocab"], key=model["vocab"].get)
    return {name: i for i, name in enumerate(names)}, [tuple(m) for m in model["merges"]]


def llama_like(corpus, added=(), metaspace=False):
    """Mixtral and Phi: SentencePiece-style BPE with byte fallback."""
    vocab, merges = pieces(corpus)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    t.add_special_tokens([AddedToken(x, normalized=False) for x in ("<unk>", "<s>", "</s>")])
    t.add_special_tokens([AddedToken(x, normalized=False, rstrip=True) for x in added])
    return t


def bert(corpus, cased):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(texts(corpus), trainers.WordPieceTrainer(vocab_size=SIZE, limit_alphabet=300, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def main(corpus):
    made = {
        "qwen3": byte_level(corpus, splits([QWEN]), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<think>", "</think>"], normalizers.NFC()),
        "deepseek3": byte_level(corpus, splits(DEEPSEEK3), ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], ["<｜User｜>", "<｜Assistant｜>"], normalizers.Sequence([]), "<｜begin▁of▁sentence｜>"),
        "deepseek2": byte_level(corpus, splits(DEEPSEEK2, pre_tokenizers.Digits(individual_digits=True)), ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], bos="<｜begin▁of▁sentence｜>"),
        "gpt-oss": byte_level(corpus, splits([O200K]), ["<|startoftext|>", "<|return|>", "<|start|>", "<|message|>", "<|end|>"], ignore_merges=True),
        "mixtral": llama_like(corpus),
        "mixtral-metaspace": llama_like(corpus, metaspace=True),
        "phi": llama_like(corpus, ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]),
        "bert-uncased": bert(corpus, False),
        "bert-cased": bert(corpus, True),
    }
    for name, t in made.items():
        t.save(str(here / "small" / f"{name}.json"), pretty=False)


main(sys.argv[1])
