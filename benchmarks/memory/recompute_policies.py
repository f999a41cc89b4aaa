"""What recomputing costs and saves: eight layers of a GPT, forward and backward, policy by policy.

recompute-policies    seconds of a step for each policy and of one layer's forward pass alone;
                      with it the metered peak of the kept bytes and the counted FLOP
"""

import time

from dtlib import recordings
from dtlib.foundations import TransformerSpec

NAME = "recompute-policies"
SPEC = TransformerSpec("recording", layers=8, hidden=256, heads=4, vocab=64)
BATCH, SEQ, REPETITIONS = 2, 256, 9
POLICIES = (
    "keep all", "attention core again", "products kept", "every 4", "every 2", "every 1",
    "Revolve, 2 slots", "Revolve, 1 slot",
)  # fmt: skip


def layers_and_schedule(name, blocks):
    """How a policy runs these blocks: as which layers, by which schedule."""
    from functools import partial

    from dtlib.memory import checkpoint, checkpoint_policy, keep_all, revolve, uniform
    from dtlib.memory.recompute.model import run_selective

    count = len(blocks)
    if name == "attention core again":
        return [partial(run_selective, block) for block in blocks], keep_all(count)
    if name == "products kept":
        policy = checkpoint_policy("products")
        return [partial(checkpoint, block, policy=policy) for block in blocks], keep_all(count)
    kind, _, size = name.partition(" ")
    if kind == "every":
        return blocks, uniform(count, int(size))
    return blocks, keep_all(count) if kind == "keep" else revolve(count, int(size.split()[0]))


def step(layers, schedule, x, positions):
    """One forward and backward pass through the chain; gradients are thrown away."""
    from dtlib.memory import recompute_chain

    recompute_chain(schedule, layers, x, positions).sum().backward()


def measure_recompute_policies() -> None:
    """Measure all policies in turn, on one thread."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from dtlib.memory import Meter
    from dtlib.models import Block

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    blocks = [Block(SPEC, layer) for layer in range(SPEC.layers)]
    x, positions = torch.randn(BATCH, SEQ, SPEC.hidden, requires_grad=True), torch.arange(SEQ)
    samples = {name: [] for name in (*POLICIES, "one layer forward")}
    peaks, flops = {}, {}
    for name in POLICIES:
        layers, schedule = layers_and_schedule(name, blocks)
        with Meter(*blocks, positions) as meter:
            step(layers, schedule, x, positions)
        peaks[name] = meter.peak_bytes
        with FlopCounterMode(display=False) as counter:
            step(layers, schedule, x, positions)
        flops[name] = counter.get_total_flops()
    for _ in range(REPETITIONS):
        for name in POLICIES:
            layers, schedule = layers_and_schedule(name, blocks)
            start = time.perf_counter()
            step(layers, schedule, x, positions)
            samples[name].append(time.perf_counter() - start)
        start = time.perf_counter()
        for block in blocks:
            block(x, positions)
        samples["one layer forward"].append((time.perf_counter() - start) / len(blocks))
    torch.set_num_threads(threads)
    about = {"layers": SPEC.layers, "hidden": SPEC.hidden, "heads": SPEC.heads}
    about |= {"batch": BATCH, "seq": SEQ, "peak_bytes": peaks, "flops": flops}
    recordings.save(NAME, samples, unit="s", **about)


if __name__ == "__main__":
    measure_recompute_policies()
