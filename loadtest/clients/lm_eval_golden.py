"""lm_eval against transformers: log-likelihoods that lm_eval gets of a gateway, unchanged, beside
those that follow from the logits which transformers computed of the same checkpoint.

    pip install "lm_eval[api]" transformers safetensors
    make golden                            # whole checkpoints; models/demo is one as it is
    bin/switchyard weights unpack DIR      # golden.safetensors, with transformers' logits
    bin/switchyard up --model DIR --wire f32
    python lm_eval_golden.py http://127.0.0.1:8080 DIR

The task is its own JSON: spans of the golden sequences, each with what stands before it. A model
with a tokenizer is asked for ids by its gateway, as lm_eval does by itself where it can. One
without gets a tokenizer here that has a character for each id. lm_eval runs twice, with a request
at a time and with eight in one body and four bodies at a time. Prints a line of JSON; fails if a
log-likelihood differs by more than TOLERANCE, an argmax does, or the runs do by a bit.
"""

import json
import os
import sys
import tempfile
import urllib.request

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

import lm_eval
import lm_eval.tasks
import numpy
from safetensors.numpy import load_file

URL, CHECKPOINT = sys.argv[1].rstrip("/"), sys.argv[2].rstrip("/")
MODEL = os.path.basename(CHECKPOINT)
TOLERANCE = 1e-3
FIRST = 0x4E00  # the character of id 0 where a model has no tokenizer
TASK = """task: golden
dataset_path: json
dataset_kwargs: {{data_files: {{test: {docs}}}}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{{{context}}}}"
doc_to_target: "{{{{continuation}}}}"
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""


def gateway(path, **body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode() if body else None, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


class Remote:
    """The gateway's tokenizer."""
    args = ""

    def text(self, ids):
        return gateway("/detokenize", tokens=ids)["prompt"]

    def ids(self, text):
        return gateway("/tokenize", prompt=text, add_special_tokens=False)["tokens"]


class Characters:
    """A tokenizer of a character for each id, in a folder that transformers reads."""

    def __init__(self, folder, vocab):
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast
        of = Tokenizer(models.WordLevel({chr(FIRST + i): i for i in range(vocab)}, unk_token=chr(FIRST)))
        of.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
        PreTrainedTokenizerFast(tokenizer_object=of, eos_token=chr(FIRST + 2)).save_pretrained(folder)
        self.args = f",tokenizer_backend=huggingface,tokenizer={folder}"

    def text(self, ids):
        return "".join(chr(FIRST + i) for i in ids)

    def ids(self, text):
        return [ord(c) - FIRST for c in text]


def documents(tokenizer, golden):
    """What can stand behind the beginnings of the golden sequences, with transformers'
    log-likelihoods: what stands there, and the token that is likeliest."""
    at = golden["positions"][0].tolist() if "positions" in golden else list(range(golden["logits"].shape[1]))
    place = {position: i for i, position in enumerate(at)}
    for row, logits in zip(golden["input_ids"].tolist(), golden["logits"].astype(numpy.float64)):
        logprobs = logits - logits.max(-1, keepdims=True)
        logprobs -= numpy.log(numpy.exp(logprobs).sum(-1, keepdims=True))
        starts = range(2, len(row) - 1, 3) if len(at) == len(row) else [p + 1 for p in at if 0 < p < len(row) - 1]
        for start in starts:
            known = next(n for n in range(1, len(row)) if start - 1 + n not in place)  # positions in a row
            for ids in row[start:start + min(1 + start % 7, known)], [int(logprobs[place[start - 1]].argmax())]:
                context, continuation = tokenizer.text(row[:start]), tokenizer.text(ids)
                if context.rstrip() != context or tokenizer.ids(context) != row[:start] or tokenizer.ids(context + continuation) != row[:start] + ids:
                    continue  # lm_eval would ask for other ids
                of = logprobs[place[start - 1]:][:len(ids)]
                yield {"context": context, "continuation": continuation, "loglikelihood": float(of[numpy.arange(len(ids)), ids].sum()), "greedy": of.argmax(-1).tolist() == ids}


def evaluate(tasks, tokenizer, context, at_once, batch):
    """What lm_eval makes of the task: a log-likelihood and an argmax of each document."""
    args = f"model={MODEL},base_url={URL}/v1/completions,num_concurrent={at_once},max_retries=1,max_length={context}{tokenizer.args}"
    results = lm_eval.simple_evaluate("local-completions", args, ["golden"], batch_size=batch, task_manager=tasks, bootstrap_iters=0)
    of = {s["doc_id"]: s["filtered_resps"][0] for s in results["samples"]["golden"]}
    return [of[i] for i in sorted(of)]


def main():
    golden, about = load_file(os.path.join(CHECKPOINT, "golden.safetensors")), gateway("/tokenizer_info")
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Remote() if about["has_tokenizer"] else Characters(os.path.join(folder, "tokenizer"), about["vocab_size"])
        docs = list(documents(tokenizer, golden))
        path = os.path.join(folder, "docs.jsonl")
        with open(path, "w") as file:
            file.writelines(json.dumps(d) + "\n" for d in docs)
        with open(os.path.join(folder, "golden.yaml"), "w") as file:
            file.write(TASK.format(docs=path))
        tasks = lm_eval.tasks.TaskManager(include_path=folder, include_defaults=False)
        alone = evaluate(tasks, tokenizer, about["model_max_length"], 1, 1)
        batched = evaluate(tasks, tokenizer, about["model_max_length"], 4, 8)
    off = [abs(got - d["loglikelihood"]) for (got, _), d in zip(alone, docs)]
    wrong = sum(greedy != d["greedy"] for (_, greedy), d in zip(alone, docs))
    print(json.dumps({"model": MODEL, "documents": len(docs), "greedy": sum(d["greedy"] for d in docs), "furthest_off": max(off), "wrong_argmax": wrong, "batched_equals_alone": batched == alone}))
    if len(alone) != len(docs) or max(off) > TOLERANCE or wrong or batched != alone:
        sys.exit(1)


main()
