#!/usr/bin/env python3
"""Makes nasty.json.gz, strings that are hard to encode, and reference.json.gz: hashes
of the ids that the reference libraries give for them and for the slices of a
corpus and the heads of its files, and of what they decode those to.

    pip install tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3
    python3 reference.py TOKENIZERS_DIR CORPUS_DIR

A hash is the beginning of SHA-256 over ids as 32-bit little-endian numbers. A
second one, after a slash, is that of the decoded text where it is not the text
itself. "" stands for what a reference does not take.
"""
import base64
import gzip
import hashlib
import json
import pathlib
import random
import struct
import sys

import sentencepiece
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tiktoken_ext import openai_public
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

here = pathlib.Path(__file__).parent
SLICE, HEAD = 1 << 20, 1 << 15
DIGITS = 10
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
CL100K = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""


def short(data):
    return hashlib.sha256(data).hexdigest()[:DIGITS]


class Reference:
    """encode and decode take and give bytes; encode gives None for what it does not take."""

    def hashes(self, data):
        ids = self.encode(data)
        if ids is None:
            return ""
        back = self.decode(ids)
        h = short(struct.pack(f"<{len(ids)}I", *ids))
        return h if back == data else h + "/" + short(back)


class HF(Reference):
    def __init__(self, t, special):
        self.t = t
        t.encode_special_tokens = not special

    def encode(self, data):
        try:
            return self.t.encode(data.decode(), add_special_tokens=False).ids
        except UnicodeDecodeError:
            return None

    def decode(self, ids):
        return self.t.decode(ids, skip_special_tokens=False).encode()


class Tiktoken(Reference):
    def __init__(self, path, pattern, special=None):
        self.t = tiktoken.Encoding(path, pat_str=pattern, mergeable_ranks=load_tiktoken_bpe(str(path)), special_tokens=special or {})
        self.special = special is not None

    def encode(self, data):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None if self.special else self.t._encode_bytes(data)
        return self.t.encode(text, allowed_special="all") if self.special else self.t.encode_ordinary(text)

    def decode(self, ids):
        return self.t.decode_bytes(ids)


class SentencePiece(Reference):
    def __init__(self, path):
        self.t = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def encode(self, data):
        return self.t.encode(data)

    def decode(self, ids):
        return self.t.decode(ids).encode()


def gpt2(folder):
    t = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return t


LLAMA4 = ["<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>"]


def references(folder):
    """Those of published tokenizers, which see the whole corpus."""
    yield "r50k", Tiktoken(folder / "tiktoken/r50k_base.tiktoken", openai_public.r50k_pat_str)
    yield "cl100k", Tiktoken(folder / "tiktoken/cl100k_base.tiktoken", CL100K)
    yield "llama4", Tiktoken(folder / "llama4/tokenizer.model", O200K)
    yield "gpt2", HF(gpt2(folder / "gpt2"), False)
    yield "mistral-v1", SentencePiece(folder / "mistral/tokenizer.model.v1")
    yield "mistral-v2", SentencePiece(folder / "mistral/mistral_instruct_tokenizer_240216.model.v2")
    yield "mistral-v3", SentencePiece(folder / "mistral/mistral_instruct_tokenizer_240323.model.v3")
    yield "demo", HF(Tokenizer.from_file(str(here / "../../../../models/demo/tokenizer.json")), False)


def with_special(folder):
    """The same where special tokens in a text count."""
    yield "cl100k", Tiktoken(folder / "tiktoken/cl100k_base.tiktoken", CL100K, {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276})
    yield "llama4", Tiktoken(folder / "llama4/tokenizer.model", O200K, {name: 200000 + i for i, name in enumerate(LLAMA4)})
    yield "demo", HF(Tokenizer.from_file(str(here / "../../../../models/demo/tokenizer.json")), True)


def small(special):
    """Those that train.py made."""
    for path in sorted((here / "small").glob("*.json")):
        yield path.stem, HF(Tokenizer.from_file(str(path)), special)


UNITS = [
    " ", "\n", "\r\n", "\t", "a", "A", "ab", "the", "'", "'s", "=", "-", "0", "1234567890", ".", "<", "<|", "é", "e\u0301", "\u0301", "\u0308\u0323", "ß", "İ", "ſ", "Σ",
    "你", "好", "々", "〇", "あ", "カ", "한", "\u1100\u1161\u11a8", "ا", "ह", "ก", "\u0e33", "\u200d", "\u200b", "\ufeff", "\u00a0", "\u3000", "\u2028", "\u0085", "\x00", "\x7f", "\x1b",
    "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "🏳️‍🌈", "\U0001d400", "\U00020000", "\ue000", "\U000f0000", "\ufffd", "▁", "▁▁", "##", "[UNK]", "<s>", "</s>", "<unk>", "<0x0A>", "[INST]", "[/INST]",
    "[REFERENCE_DOC_7]", "[CLS]", "[MASK]", "<|endoftext|>", "<|endofprompt|>", "<|begin_of_text|>", "<|eot|>", "<|user|>", "<|assistant|>", "<|im_start|>", "<think>", "<|end|>", "<|start|>",
    "<｜begin▁of▁sentence｜>", "<｜User｜>", "ǅ", "ʰ", "ª", "Ⅷ", "½", "٣", "²", "_", "$", "\u20ac", "\\", "/", "/\n", "!\n\n", "I'LL", "don't", "'ſ", "HTTPServer", "camelCase", "x1y2",
]
BAD = [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\x80", b"\xf4\x90\x80\x80", b"\xe4\xb8\xad"]


def nasty():
    """Strings as lists of [bytes, count]."""
    r = random.Random(9)
    yield []
    for u in UNITS:
        yield [(u, 1)]
        yield [(u, 2), ("x", 1), (u, 3)]
        yield [("Hi ", 1), (u, 1), (" there", 1)]
    for u in UNITS:
        yield [(u, r.choice([17, 31, 64, 333, 2000]))]
    for u in (" ", "\n", "a", "=", "é", "e\u0301", "\u0301", "你", "👍🏽", "ab", "\u3000", "\r\n", " a", "a ", "1"):
        yield [("x", 1), (u, 9999), ("y", 1)]
    for _ in range(300):
        yield [(r.choice(UNITS), r.choice([1, 1, 1, 2, 3])) for _ in range(r.randint(2, 40))]
    for b in BAD:
        yield [(b, 1)]
        yield [("abc ", 1), (b, 2), (" déf\n\n  g", 1)]
    for _ in range(60):
        yield [(r.choice(BAD + UNITS), r.choice([1, 1, 2])) for _ in range(r.randint(2, 20))]
    for _ in range(30):
        yield [(bytes(r.randrange(256) for _ in range(r.randint(1, 60))), 1)]


def as_bytes(x):
    return x.encode() if isinstance(x, str) else x


def slices(path, size):
    data = gzip.open(path).read()
    while data:
        end = min(size, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[:end]
        data = data[end:]


def main(folder, corpus):
    strings = [[(as_bytes(u), n) for u, n in s] for s in nasty()]
    rows = ",\n".join(json.dumps([[base64.b64encode(u).decode(), n] for u, n in s]) for s in strings)
    (here / "nasty.json.gz").write_bytes(gzip.compress(("[\n" + rows + "\n]\n").encode(), mtime=0))
    joined = [b"".join(u * n for u, n in s) for s in strings]
    files = sorted(pathlib.Path(corpus).glob("*.txt.gz"))
    out = {"slice": SLICE, "corpus": {f.name: {} for f in files}, "head": HEAD, "heads": {f.name: {} for f in files}, "nasty": {}, "special": {}}
    for name, ref in [*references(folder), *small(False)]:
        out["nasty"][name] = [ref.hashes(x) for x in joined]
        whole = not (here / "small" / f"{name}.json").exists()
        for f in files:
            out["heads"][f.name][name] = ref.hashes(next(slices(f, HEAD)))
            every = slices(f, SLICE) if whole else [next(slices(f, SLICE))]
            out["corpus"][f.name][name] = [ref.hashes(x) for x in every]
        print(name, flush=True)
    for name, ref in [*with_special(folder), *small(True)]:
        out["special"][name] = [ref.hashes(x) for x in joined]
    (here / "reference.json.gz").write_bytes(gzip.compress(json.dumps(out, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
