"""One training step of a tiny GPT on this machine, alone and on several ranks: `tiny-gpt-step`.

First what an estimate needs, with one thread: a product of the model's own size, a copy of an array
that no cache holds, a ping-pong between two ranks. Then what it predicts: the step, on one, two and
four ranks that each have their own micro-batch and average their gradients with our ring.
"""

import time

from benchmarks.timing import ping_pong
from dtlib import launch, recordings
from dtlib.collectives import execute, ring_all_reduce
from dtlib.foundations import KB, MB, TransformerSpec

SPEC = TransformerSpec(
    "tiny", layers=4, hidden=256, heads=4, vocab=1024, positions=128, dropout=False
)
SEQ, MICRO_BATCH = 128, 4
COPY_BYTES = 64 * MB
MESSAGES = [1 * KB, 64 * KB, 1 * MB, 4 * MB, 16 * MB]
COUNT = 9


def tiny_gpt():
    """The model of `SPEC` in torch, a causal GPT with learned positions."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, hidden, heads, ffn):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

        def forward(self, x_bsh):
            batch, seq, hidden = x_bsh.shape
            split = self.qkv(self.norm1(x_bsh)).view(batch, seq, 3, self.heads, -1)
            q, k, v = split.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x_bsh = x_bsh + self.out(mixed.transpose(1, 2).reshape(batch, seq, hidden))
            return x_bsh + self.down(nn.functional.gelu(self.up(self.norm2(x_bsh))))

    class GPT(nn.Module):
        def __init__(self, spec):
            super().__init__()
            self.words = nn.Embedding(spec.vocab, spec.hidden)
            self.places = nn.Embedding(spec.positions, spec.hidden)
            self.blocks = nn.ModuleList(
                Block(spec.hidden, spec.heads, spec.ffn) for _ in range(spec.layers)
            )
            self.norm = nn.LayerNorm(spec.hidden)
            self.head = nn.Linear(spec.hidden, spec.vocab, bias=False)

        def forward(self, tokens_bs):
            places = torch.arange(tokens_bs.shape[1])
            x_bsh = self.words(tokens_bs) + self.places(places)
            for block in self.blocks:
                x_bsh = block(x_bsh)
            return self.head(self.norm(x_bsh))

    torch.manual_seed(0)
    return GPT(SPEC)


def ingredients(count):
    """Seconds of a product of the model's size and of a copy, with one thread."""
    import torch

    torch.set_num_threads(1)
    tokens, hidden = SEQ * MICRO_BATCH, SPEC.hidden
    a, b = torch.randn(tokens, hidden), torch.randn(hidden, SPEC.ffn)
    source = torch.zeros(COPY_BYTES // 4)
    target = torch.empty_like(source)
    times = {"product": [], "copy": []}
    for _ in range(count + 2):
        start = time.perf_counter()
        for _ in range(10):
            a @ b
        times["product"].append((time.perf_counter() - start) / 10)
        start = time.perf_counter()
        target.copy_(source)
        times["copy"].append(time.perf_counter() - start)
    return {name: series[2:] for name, series in times.items()}


def steps(count):
    """On each rank: seconds of whole steps, and of the part that averages the gradients."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    model, P = tiny_gpt(), dist.get_world_size()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(SPEC.vocab, (MICRO_BATCH, SEQ + 1))
    ring, times = ring_all_reduce(P), {"step": [], "gradients": []}
    for _ in range(count + 2):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        half = time.perf_counter()
        if P > 1:
            flat = torch.cat([p.grad.flatten() for p in model.parameters()])
            padded = torch.nn.functional.pad(flat, (0, -flat.numel() % P))
            execute(ring, padded, dist.group.WORLD)
            padded /= P
        times["gradients"].append(time.perf_counter() - half)
        optimizer.step()
        times["step"].append(time.perf_counter() - start)
    return {name: series[2:] for name, series in times.items()}


def measure_tiny_step() -> None:
    """Write the recording `tiny-gpt-step`."""
    samples = {}
    with launch(1) as one:
        (found,) = one.run(ingredients, COUNT)
        samples |= found
    with launch(2) as pair:
        first, _ = pair.run(ping_pong, MESSAGES, COUNT)
        samples |= {f"message of {n} B": series for n, series in first.items()}
    for P in (1, 2, 4):
        with launch(P) as ranks:
            by_rank = ranks.run(steps, COUNT)
        for name in ("step", "gradients"):
            slowest = [max(times) for times in zip(*(r[name] for r in by_rank), strict=True)]
            samples[f"{name} on {P}"] = slowest
    rounded = {name: [round(x, 7) for x in series] for name, series in samples.items()}
    recordings.save(
        "tiny-gpt-step", rounded, unit="s", seq=SEQ, micro_batch=MICRO_BATCH, messages=MESSAGES,
        copy_bytes=COPY_BYTES, shape=[SPEC.layers, SPEC.hidden, SPEC.heads, SPEC.vocab],
    )  # fmt: skip


if __name__ == "__main__":
    measure_tiny_step()
