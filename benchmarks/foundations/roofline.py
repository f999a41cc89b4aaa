"""The roofline of this machine, and of a data-parallel step on two of its ranks.

    roofline-1-core         one core: a stream through memory, and (tokens, 4096) x (4096, 4096)
    break-even-2-ranks      one matrix, forward and backward, and the all-reduce of its gradient

Everything is in float32 and on one thread for each rank. Repetitions go round all cases in turn, in
an order that is shuffled anew each time; what two ranks do lasts as long as the slower one.
"""

import random
import time

from benchmarks.timing import slowest
from dtlib import launch, recordings

WIDTH = 4096
TOKENS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
STREAM = 2**24
STEP_WIDTHS = [1024, 2048, 4096]
STEP_TOKENS = [4, 8, 16, 32, 64, 128]
COUNT = 5


def one_core(count):
    """On one rank: the seconds of a stream and of a product with each number of tokens."""
    import torch

    torch.set_num_threads(1)
    first, second, third = (torch.rand(STREAM) for _ in range(3))
    weight = torch.rand(WIDTH, WIDTH)
    inputs = {tokens: torch.rand(tokens, WIDTH) for tokens in TOKENS}
    outputs = {tokens: torch.empty(tokens, WIDTH) for tokens in TOKENS}

    def stream():
        torch.add(first, second, alpha=3.0, out=third)

    def product(tokens):
        return lambda: torch.mm(inputs[tokens], weight, out=outputs[tokens])

    cases = {"stream": stream} | {f"{tokens} tokens": product(tokens) for tokens in TOKENS}
    return _timed(cases, count)


def two_ranks(count):
    """On each of two ranks: the seconds of computing, of all-reducing, and of both, two ways."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    cases = {}
    for width in STEP_WIDTHS:
        weight, gradient, other = (torch.rand(width, width) for _ in range(3))
        cases[f"all-reduce {width}"] = lambda gradient=gradient: dist.all_reduce(gradient)
        for tokens in STEP_TOKENS:
            x = torch.rand(tokens, width)

            def compute(x=x, weight=weight, gradient=gradient):
                y = x @ weight  # forward
                y @ weight.T  # the gradient of the inputs
                torch.mm(x.T, y, out=gradient)  # and of the weights

            def one_after_the_other(compute=compute, gradient=gradient):
                compute()
                dist.all_reduce(gradient)

            def both_at_once(compute=compute, other=other):
                work = dist.all_reduce(other, async_op=True)
                compute()
                work.wait()

            where = f"{width} wide, {tokens} tokens"
            cases[f"compute {where}"] = compute
            cases[f"serial {where}"] = one_after_the_other
            cases[f"overlapped {where}"] = both_at_once
    return _timed(cases, count, dist.barrier)


def _timed(cases, count, barrier=lambda: None):
    shuffle = random.Random(0)  # the same on all ranks
    times = {name: [] for name in cases}
    for _ in range(count + 1):
        for name in shuffle.sample(list(cases), len(cases)):
            barrier()
            start = time.perf_counter()
            cases[name]()
            times[name].append(time.perf_counter() - start)
    return {name: series[1:] for name, series in times.items()}


def measure_one_core() -> None:
    with launch(1) as ranks:
        samples = slowest(ranks.run(one_core, COUNT))
    recordings.save(
        "roofline-1-core", samples, unit="s", width=WIDTH, tokens=TOKENS, stream_numbers=STREAM
    )


def measure_break_even() -> None:
    with launch(2) as ranks:
        samples = slowest(ranks.run(two_ranks, COUNT))
    recordings.save(
        "break-even-2-ranks", samples, unit="s", ranks=2, widths=STEP_WIDTHS, tokens=STEP_TOKENS
    )


if __name__ == "__main__":
    measure_one_core()
    measure_break_even()
