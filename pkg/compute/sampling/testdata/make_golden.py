"""Writes golden.json: what transformers' logits processors make of logits.

    python3 make_golden.py > golden.json    # made with transformers 5.24.0, torch 2.15.0

Each case has logits, the ids so far (prompt, generated), the settings, the logits
before temperature, and the probabilities that are left to draw from.
"""
import json
import random

import torch
from transformers import generation as g

VOCAB = 24


def case(rng, settings):
    logits = [round(rng.uniform(-6, 6), 3) for _ in range(VOCAB)]
    prompt = [rng.randrange(VOCAB) for _ in range(6)]
    made = [rng.randrange(VOCAB) for _ in range(rng.randrange(5))]
    ids, scores = torch.tensor([prompt + made]), torch.tensor([logits])
    before = []
    if bias := settings.get("logit_bias"):
        before.append(g.SequenceBiasLogitsProcessor({(int(k),): v for k, v in bias.items()}))
    if n := settings.get("min_tokens"):
        before.append(g.MinNewTokensLengthLogitsProcessor(len(prompt), n, settings["ends"], device="cpu"))
    if p := settings.get("repetition_penalty"):
        before.append(g.RepetitionPenaltyLogitsProcessor(p))
    for processor in before:
        scores = processor(ids, scores)
    shaped = scores
    scores = g.TemperatureLogitsWarper(settings["temperature"])(ids, scores)
    if k := settings.get("top_k"):
        scores = g.TopKLogitsWarper(k)(ids, scores)
    if p := settings.get("top_p"):
        scores = g.TopPLogitsWarper(p)(ids, scores)
    if p := settings.get("min_p"):
        scores = g.MinPLogitsWarper(p)(ids, scores)
    probs = torch.softmax(scores, -1)[0].tolist()
    return {
        "settings": settings, "logits": logits, "prompt": prompt, "generated": made,
        "shaped": [v if v > -1e30 else None for v in shaped[0].tolist()],
        "left": {str(i): round(p, 6) for i, p in enumerate(probs) if p > 0},
    }


def main():
    rng = random.Random(28)
    cases = []
    for i in range(40):
        s = {"temperature": rng.choice([0.5, 1.0, 1.7])}
        if i % 2:
            s["min_p"] = rng.choice([0.02, 0.1, 0.3])
        if i % 3 == 1:
            s["top_p"] = rng.choice([0.5, 0.9, 0.95])
        if i % 5 > 2:
            s["top_k"] = rng.choice([3, 8, 20])
        if i % 4 > 1:
            s["logit_bias"] = {str(rng.randrange(VOCAB)): round(rng.uniform(-20, 20), 2) for _ in range(3)}
        if i % 7 > 3:
            s["repetition_penalty"] = rng.choice([0.7, 1.3])
        if i % 6 > 3:
            s["min_tokens"], s["ends"] = 3, [1, 5, 23]
        cases.append(case(rng, s))
    print(json.dumps({"vocab": VOCAB, "cases": cases}, indent=None, separators=(",", ":")).replace('{"settings"', '\n{"settings"'))


main()
