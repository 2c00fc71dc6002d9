#!/usr/bin/env python3
"""Makes golden.json.gz: what Hugging Face tokenizers does with the texts
below, for the demo model's tokenizer and for small ones that differ from it.

    pip install tokenizers==0.23.3 && python3 make.py
"""
import gzip
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

here = pathlib.Path(__file__).parent

TEXTS = [
    "", " ", "\n", "a", "Hello, world!", "  two  spaces  between ", "tab\tand\r\nline\n\n\nbreaks \n", "trailing   ",
    "The quick brown fox jumps over the lazy dog, doesn't it? I'LL say: they've, we're, she'd, I'm.",
    "Der Fuchs läuft über die Straße; Ärger gibt's genug. Größenmaßstäbe!", "Le garçon naïf mangeait des crêpes à l'été.",
    "El niño comió piñas, ¿verdad?", "Быстрая лиса прыгает через собаку.", "Η αλεπού πηδάει πάνω από τον σκύλο.",
    "الثعلب السريع يقفز فوق الكلب", "तेज़ लोमड़ी कुत्ते के ऊपर कूदती है।", "สุนัขจิ้งจอกกระโดดข้ามสุนัข", "敏捷的狐狸跳过了懒狗。", "素早い狐がのろまな犬を飛び越える。",
    "빠른 여우가 개를 뛰어넘는다", "Con cáo nhanh nhẹn nhảy qua con chó lười.", "Hızlı tilki köpeğin üzerinden atlar. İstanbul ılık.",
    "e\u0301 is not \u00e9, \ufb01 is not fi, \u212b is not \u00c5, \u1e9b\u0323", "zero\u200bwidth\u200djoiner \u00a0nbsp\u2003em\u3000ideographic\u0085nel",
    "👩‍👩‍👧‍👦 family, 🇩🇪 flag, 👍🏽 skin", "1 22 333 4444 55555 1234567890 ٣٤٥ ½ Ⅷ ² 3.14e-10 0x1F",
    "'s 'S 'ſ 'T 'Re 'VE 'll' 'dog 'x ' '' ''s", "func main() {\n\tfmt.Println(\"hi\")\n}\n", "def f(x):\n    return x**2  # square\n",
    "<div class=\"a\">&amp;</div>", "a_b-c/d\\e|f~g`h^i@j#k$l%m&n*o(p)q[r]s{t}u;v:w,x.y<z>=+?!", "\x00\x01\x7f control", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<|endoftext|>", "<|user|>Hi\n<|assistant|>Hello\n", "x<|endoftext|>y <|user|> z", "<|endof<|endoftext|>text|>", "<|<|user|>|>",
    "<left> a  <left>b", "a <right>  b<right>", "word wordy sword word. word", "  <left>  <right>  ", "Norm NORM ﬁx fix",
    "don't\n\n\tindent   \n  x\r\n\r\ny", "!!!\n\n???\n", " \n \n x", "\u2028line\u2029para",
]

CORPUS = [t for t in TEXTS if t] * 3


def trained(pre, **kw):
    """A tokenizer of 400 pieces trained on the texts."""
    t = Tokenizer(models.BPE(**kw))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=["<|endoftext|>"]))
    return t


def split(regex, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), behavior, invert), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def small():
    yield "gpt2", trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "prefix-space", trained(pre_tokenizers.ByteLevel(add_prefix_space=True))
    t = trained(split(QWEN2))
    t.normalizer = normalizers.NFC()
    t.add_tokens([AddedToken("<left>", lstrip=True, special=True), AddedToken("<right>", rstrip=True), AddedToken("word", single_word=True), AddedToken("Norm", normalized=True)])
    yield "qwen2-added", t
    t = trained(split(O200K), ignore_merges=True)
    t.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    yield "o200k-bos", t
    t = trained(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    t.normalizer = normalizers.Sequence([normalizers.NFKC()])
    yield "digits", t
    yield "removed", trained(split(r"\p{L}+|\p{N}+", "removed", True))
    yield "literal", trained(pre_tokenizers.Sequence([pre_tokenizers.Split("-", "removed"), pre_tokenizers.Split(" ", "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def encode(t, plain):
    """Ids of every text; with plain, special tokens are text."""
    t.encode_special_tokens = plain
    ids = [t.encode(x, add_special_tokens=False).ids for x in TEXTS]
    t.encode_special_tokens = False
    return ids


def case(t):
    special = encode(t, False)
    ids = [list(range(k, t.get_vocab_size(), 37)) for k in range(3)]  # mostly not UTF-8
    return {
        "special": special,
        "plain": encode(t, True),
        "decoded": [t.decode(x, skip_special_tokens=False) for x in special],
        "skipped": [t.decode(x, skip_special_tokens=True) for x in special],
        "mixed_ids": ids,
        "mixed": [t.decode(x, skip_special_tokens=False) for x in ids],
        "prompts": [t.encode(x).ids for x in TEXTS],
    }


def main():
    demo = here / "../../../models/demo"
    out = {"texts": TEXTS, "tokenizers": {}}
    t = Tokenizer.from_file(str(demo / "tokenizer.json"))
    out["tokenizers"]["demo"] = case(t)
    for name, t in small():
        t.save(str(here / f"{name}.json"), pretty=False)
        out["tokenizers"][name] = case(t)
    (here / "golden.json.gz").write_bytes(gzip.compress((json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n").encode(), mtime=0))


main()
