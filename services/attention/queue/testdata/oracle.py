"""What llguidance allows, token by token, for TestOracle.

    python3 oracle.py TOKENIZER.JSON

Reads JSON lines: {"schema": text} or {"regex": text} begins anew, {"token": id} goes on.
Answers each with {"mask": hexadecimal, bit i of byte i/8 for token i, "over": bool} or
{"error": text}.
"""
import json
import sys

from llguidance import LLMatcher, LLTokenizer


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        tokenizer = LLTokenizer(f.read())
    matcher = None
    for line in sys.stdin:
        asked = json.loads(line)
        if "token" in asked:
            matcher.consume_token(asked["token"])
        elif "schema" in asked:
            matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(asked["schema"]), log_level=0)
        else:
            matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_regex(asked["regex"]), log_level=0)
        if matcher.get_error():
            answer = {"error": matcher.get_error().splitlines()[0]}
        else:
            answer = {"mask": matcher.compute_bitmask().hex(), "over": matcher.is_accepting()}
        print(json.dumps(answer), flush=True)


main()
