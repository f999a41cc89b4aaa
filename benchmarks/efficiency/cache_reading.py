"""How long one core reads equally many bytes of cache, for four kinds of attention.

cache-reading-1-core   labels "32 heads", "8 heads", "1 head" and "latent": the core's own seconds
                       for the attention of one new token of each of so many sequences (`batch`)
                       that all caches together are as large as that of one sequence with keys in
                       all heads; "read": the sum of a tensor of as many bytes; "multiply": a
                       product of `multiply_flops`

32 heads of 128 numbers, a latent of 512 and 64, absorbed, 8,192 tokens, 32-bit numbers. A core's
own seconds leave out what other programs took of it.
"""

import time

import torch

from dtlib import recordings

NAME = "cache-reading-1-core"
HEADS, WIDTH, LATENT, ROPE, TOKENS, REPETITIONS = 32, 128, 512, 64, 8192, 15
FULL = 2 * HEADS * WIDTH  # numbers of a token with keys in all heads
SIDE = 1024
KINDS = {"32 heads": 32, "8 heads": 8, "1 head": 1, "latent": None}


def grouped(kv_heads: int, batch: int):
    """Attention of one token of each sequence, over keys and values of so many heads."""
    shape = (batch, kv_heads, TOKENS, WIDTH)
    k, v = torch.full(shape, 0.01), torch.full(shape, 0.01)
    q = torch.ones(batch, kv_heads, HEADS // kv_heads, WIDTH)
    return lambda: (q @ k.mT).softmax(-1) @ v


def absorbed(batch: int):
    """The same over latents, which are keys and values."""
    kept = torch.full((batch, TOKENS, LATENT + ROPE), 0.01)
    q = torch.ones(batch, HEADS, LATENT + ROPE)
    return lambda: (q @ kept.mT).softmax(-1) @ kept[..., :LATENT]


def measure_cache_reading() -> None:
    """Write the recording."""
    torch.set_num_threads(1)
    numbers = {kind: 2 * heads * WIDTH if heads else LATENT + ROPE for kind, heads in KINDS.items()}
    batch = {kind: round(FULL / kept) for kind, kept in numbers.items()}
    ways = {
        kind: grouped(heads, batch[kind]) if heads else absorbed(batch[kind])
        for kind, heads in KINDS.items()
    }
    flat, square = torch.ones(FULL * TOKENS), torch.ones(SIDE, SIDE)
    ways |= {"read": flat.sum, "multiply": lambda: square @ square}
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for repetition in range(REPETITIONS + 2):
        for name, way in ways.items():
            begin = time.thread_time()
            way()
            if repetition > 1:
                samples[name].append(time.thread_time() - begin)
    recordings.save(
        NAME, samples, unit="s", batch=batch, tokens=TOKENS, read_bytes=flat.nbytes,
        cache_bytes={kind: 4 * kept * TOKENS for kind, kept in numbers.items()},
        flops={kind: 2 * HEADS * TOKENS * (2 * WIDTH if heads else 2 * LATENT + ROPE)
               for kind, heads in KINDS.items()},
        multiply_flops=2 * SIDE**3,
    )  # fmt: skip


if __name__ == "__main__":
    measure_cache_reading()
