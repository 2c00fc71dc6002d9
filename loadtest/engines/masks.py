"""Times what llguidance and XGrammar take for masks: masks.py WORK ENGINE

WORK is a file that masks_test.go writes: JSON lines, a vocabulary first, then schemas with the tokens of documents. Prints a JSON line for
each schema: the seconds of the first mask with compiling, those of all later ones, and what was refused. ENGINE is llguidance or xgrammar.
Needs what pip install llguidance xgrammar brings.
"""
import json
import sys
import time


class Llguidance:
    def __init__(self, tokens, end):
        import llguidance
        import llguidance.numpy as masks

        class Vocabulary:
            eos_token_id, bos_token_id, special_token_ids = end, None, [end]

            def __call__(self, text):
                # Forced bytes go on as the longest tokens: without ids the matcher would skip them.
                data, ids, at = text.encode() if isinstance(text, str) else bytes(text), [], 0
                while at < len(data):
                    n = next(n for n in range(min(longest, len(data) - at), 0, -1) if data[at : at + n] in known)
                    ids.append(known[data[at : at + n]])
                    at += n
                return ids

        known = {text: i for i, text in reversed(list(enumerate(tokens))) if text}
        longest = max(map(len, known))
        Vocabulary.tokens = tokens
        self.llguidance, self.fill = llguidance, masks.fill_next_token_bitmask
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Vocabulary()))
        self.mask = masks.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def begin(self, schema):
        grammar = self.llguidance.LLMatcher.grammar_from_json_schema(schema)
        self.matcher = self.llguidance.LLMatcher(self.tokenizer, grammar, log_level=0)
        if self.matcher.is_error():
            raise ValueError(self.matcher.get_error())

    def next(self):
        self.fill(self.matcher, self.mask, 0)

    def read(self, token):
        return self.matcher.consume_token(token)


class XGrammar:
    def __init__(self, tokens, end):
        import xgrammar

        self.xgrammar = xgrammar
        self.info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[end])
        self.compiler = xgrammar.GrammarCompiler(self.info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, len(tokens))

    def begin(self, schema):
        # As JSON schemas say it: other properties are allowed unless they are forbidden.
        compiled = self.compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)
        self.matcher = self.xgrammar.GrammarMatcher(compiled)

    def next(self):
        self.matcher.fill_next_token_bitmask(self.mask)

    def read(self, token):
        return self.matcher.accept_token(token)


def timed(act, *of):
    began = time.perf_counter()
    act(*of)
    return time.perf_counter() - began


def walk(engine, schema):
    out = {"first": timed(lambda: (engine.begin(schema["schema"]), engine.next())), "later": [], "strayed": 0}
    for i, tokens in enumerate(schema["documents"]):
        if i > 0:
            engine.begin(schema["schema"])
            engine.next()
        for token in tokens:
            if not engine.read(token):  # which tells more than the mask: llguidance's has forced bytes in tokens of its own
                out["strayed"] += 1
                break
            out["later"].append(timed(engine.next))
    return out


def main(work, engine):
    with open(work, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    tokens = [bytes.fromhex(text) for text in lines[0]["tokens"]]
    with_masks = {"llguidance": Llguidance, "xgrammar": XGrammar}[engine](tokens, lines[0]["end"])
    for schema in lines[1:]:
        try:
            answer = walk(with_masks, schema)
        except Exception as e:
            answer = {"error": str(e).strip().splitlines()[0]}
        print(json.dumps({"name": schema["name"], **answer}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
