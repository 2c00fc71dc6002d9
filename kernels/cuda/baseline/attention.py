"""One layer's decoding of many sequences by torch, whose keys and values are not in pages."""

import functools

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import timing

# What torch takes by itself, and what it can be told to take.
BACKENDS = {
    "torch-sdpa": None,
    "torch-sdpa-flash": SDPBackend.FLASH_ATTENTION,
    "torch-sdpa-cudnn": SDPBackend.CUDNN_ATTENTION,
}


def attend(backend, *args, **options):
    if backend is None:
        return scaled_dot_product_attention(*args, **options)
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(*args, **options)


class Heads:
    """Queries of which several share a head of keys and values."""

    def __init__(self, device, s):
        def random(heads, positions):
            return torch.randn((s.rows, heads, positions, s.head), dtype=torch.bfloat16, device=device)

        self.name, self.q = s.name, random(s.heads, 1)
        self.k, self.v = random(s.kv_heads, s.context), random(s.kv_heads, s.context)
        self.operations = 4 * s.rows * s.context * s.heads * s.head
        self.bytes = self.k.nbytes + self.v.nbytes

    def ways(self):
        ways = {}
        for by, backend in BACKENDS.items():
            work = functools.partial(attend, backend, self.q, self.k, self.v, enable_gqa=True)
            if backend is None or supported(f"Attend/{self.name}/by={by}", work):
                ways[by] = work
        return ways

    def exact(self):
        share = self.q.shape[1] // self.k.shape[1]
        k, v = (t.double().repeat_interleave(share, 1) for t in (self.k, self.v))
        return plain(self.q.double(), k, v, self.q.shape[-1] ** -0.5)


class Latent:
    """Latent attention: all heads read the same lines, the first part of which is the values."""

    def __init__(self, device, s):
        def random(*size):
            return torch.randn(size, dtype=torch.bfloat16, device=device)

        self.name, self.rank, self.scale = s.name, s.rank, (s.rank + s.rope) ** -0.5
        self.q, self.lines = random(s.rows, s.heads, s.rank + s.rope), random(s.rows, s.context, s.rank + s.rope)
        self.operations = 2 * s.rows * s.context * s.heads * (2 * s.rank + s.rope)
        self.bytes = self.lines.nbytes

    def ways(self):
        # Heads stand where positions of a query do, so that no line is read for each of them.
        q, k, v = self.q[:, None], self.lines[:, None], self.lines[:, None, :, : self.rank]
        return {
            "torch-sdpa": lambda: scaled_dot_product_attention(q, k, v, scale=self.scale)[:, 0],
            "torch-bmm": lambda: plain(self.q, self.lines, self.lines[..., : self.rank], self.scale),
        }

    def exact(self):
        lines = self.lines.double()
        return plain(self.q.double(), lines, lines[..., : self.rank], self.scale)


def plain(q, k, v, scale):
    return torch.softmax(q @ k.mT * scale, -1) @ v


def supported(name, work):
    """Whether a device does what torch was told to take."""

    try:
        work()
    except RuntimeError as error:
        timing.note(f"{name}: left out: {timing.first_line(error)}")
        return False
    return True


def cases(device, shapes):
    for kind, all_of in ((Heads, shapes.attend), (Latent, shapes.latent)):
        for shape in all_of:
            yield f"Attend/{shape.name}", functools.partial(kind, device, shape)


def bench(device, shapes, seconds):
    for name, make in cases(device, shapes):
        case = timing.attempt(name, make)
        if case is not None:
            timing.compare(device, name, case.ways(), seconds, case.operations, case.bytes)


def check(device, shapes):
    for name, make in cases(device, shapes):
        case = make()
        timing.check_all(name, case.ways(), case.exact(), 1e-2)
