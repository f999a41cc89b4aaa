"""How much of a divided block's step is its all-reduces, against width: `tensor-share-2-ranks`.

Two ranks of one thread each share a block and run it forward and backward, with its four
all-reduces and, in turn, without them (each rank then goes on with its own summand). Beside it what
a prediction needs: the rate of a product of the block's own shape on both ranks at once, and a
ping-pong of the same minute.
"""

import time

from benchmarks.timing import ping_pong, slowest
from dtlib import launch, recordings
from dtlib.foundations import KB, MB

WIDTHS = [64, 128, 256, 512, 1024]
TOKENS = 256
MESSAGES = [1 * KB, 16 * KB, 64 * KB, 256 * KB, 1 * MB, 4 * MB]
COUNT = 15


def block_steps(widths, tokens, count):
    """On a rank: seconds of steps with and without sums, and of one product, by label."""
    import torch
    import torch.distributed as dist

    from dtlib.foundations import TransformerSpec
    from dtlib.models import Block
    from dtlib.parallelism import TensorParallelBlock
    from dtlib.parallelism.operators import messages

    torch.set_num_threads(1)
    P, add = dist.get_world_size(), messages.all_reduce

    def step(block, x):
        block(x).sum().backward()

    times = {}
    for width in widths:
        spec = TransformerSpec("block", 1, width, width // 32, 8, bias=False, positions=tokens)
        block = TensorParallelBlock(Block(spec), dist.group.WORLD)
        x = torch.randn(1, tokens, width, requires_grad=True)
        rows, matrix = torch.randn(tokens, width), torch.randn(width, 4 * width // P)
        runs = {
            "with sums": (add, lambda block=block, x=x: step(block, x)),
            "without sums": (lambda x, group: x.clone(), lambda block=block, x=x: step(block, x)),
            "product": (add, lambda rows=rows, matrix=matrix: rows @ matrix),
        }
        for repetition in range(count + 3):
            for name, (sums, run) in runs.items():
                messages.all_reduce = sums
                dist.barrier()
                start = time.perf_counter()
                run()
                seconds = time.perf_counter() - start
                if repetition >= 3:
                    times.setdefault(f"{name} {width}", []).append(seconds)
    messages.all_reduce = add
    return times


def measure_tensor_share() -> None:
    with launch(2) as ranks:
        first, _ = ranks.run(ping_pong, MESSAGES, COUNT)
        times = slowest(ranks.run(block_steps, WIDTHS, TOKENS, COUNT))
    pings = {f"ping-pong {n}": [round(t, 8) for t in series] for n, series in first.items()}
    recordings.save(
        "tensor-share-2-ranks",
        times | pings,
        unit="s",
        ranks=2,
        widths=WIDTHS,
        tokens=TOKENS,
        messages=MESSAGES,
    )
