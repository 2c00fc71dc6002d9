"""Whole models by transformers: random weights, greedy, as its generate does it."""

import contextlib
import functools
import statistics

import torch

import timing

try:
    import transformers
except ImportError as error:
    transformers = None
    timing.note(f"whole models are left out: {error}")


def model_of(device, config):
    keys = dict(config)
    config = transformers.AutoConfig.for_model(keys.pop("model_type"), **keys, bos_token_id=None, eos_token_id=None)
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.eval()


def ways(model):
    """As it is; and with grouped products for answers too, where it would copy each row's experts."""
    yield "transformers", contextlib.nullcontext()
    if hasattr(model, "_optimize_model_for_decode"):
        yield "transformers-grouped_mm", grouped_throughout(model)


@contextlib.contextmanager
def grouped_throughout(model):
    model._optimize_model_for_decode = contextlib.nullcontext
    try:
        yield
    finally:
        del model._optimize_model_for_decode


def generate(model, ids, tokens):
    seen = torch.ones_like(ids)
    answer = model.generate(ids, attention_mask=seen, do_sample=False, max_new_tokens=tokens, pad_token_id=0)
    if answer.shape[1] != ids.shape[1] + tokens:
        raise RuntimeError(f"{answer.shape[1] - ids.shape[1]} tokens came, not {tokens}")
    return answer


def prompt(model, batch, n):
    made = torch.Generator().manual_seed(1)
    return torch.randint(model.config.vocab_size, (batch, n), generator=made).to(model.device)


def seconds_of(device, work, repeats, seconds):
    """The median of so many calls after a first one, or of fewer that take so long; and how many."""
    (first,) = timing.clocked(device, work, 1)
    n = max(1, min(repeats, int(seconds / first)))
    return statistics.median(timing.clocked(device, work, n)), n


def whole(device, shape):
    model = model_of(device, shape.config)
    timing.attempt(f"FirstToken/{shape.name}/by=transformers", first_token, device, model, shape)
    for by, context in ways(model):
        with context:
            for size in shape.batches:
                timing.attempt(f"Generate/{shape.name}/batch={size}/by={by}", batch, device, model, shape, by, size)


def first_token(device, model, shape):
    ids = prompt(model, 1, shape.first)
    took, n = seconds_of(device, lambda: generate(model, ids, 1), 5, 10)
    name = f"FirstToken/{shape.name}/prompt={shape.first}"
    timing.line(name, "transformers", n, took, **{"tokens/s": shape.first / took})


def batch(device, model, shape, by, size):
    ids = prompt(model, size, shape.prompt)
    first, _ = seconds_of(device, lambda: generate(model, ids, 1), 3, 10)
    all_of, n = seconds_of(device, lambda: generate(model, ids, shape.tokens), 3, 10)
    steps = shape.tokens - 1
    step = (all_of - first) / steps
    timing.line(f"Generate/{shape.name}/batch={size}", by, n * steps, step, **{"tokens/s": size / step})


def bench(device, shapes, seconds):
    if transformers is None:
        return
    transformers.utils.logging.set_verbosity_error()
    for shape in shapes.generate:
        timing.attempt(shape.name, whole, device, shape)
        if device.type == "cuda":
            torch.cuda.empty_cache()


def check(device, shapes):
    """An answer is the one that the model's own logits say, token by token without a cache."""
    if transformers is None:
        return
    for shape in shapes.generate:
        model = model_of(device, shape.config).float()
        ids = prompt(model, 2, shape.prompt)
        exact = followed(model, ids, shape.tokens)
        for by, context in ways(model):
            with context:
                work = functools.partial(generate, model, ids, shape.tokens)
                timing.check_all(f"Generate/{shape.name}", {by: work}, exact, 1e-9)


@torch.no_grad()
def followed(model, ids, tokens):
    for _ in range(tokens):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    return ids
