"""How long a mixture of experts takes on four ranks when more and more copies go to one of them.

expert-skew-4-ranks     labels "25 %" to "100 %": the share of the copies that rank 0 gets;
                        "alone": one rank computes an even share while the others wait
"""

import time

from benchmarks.timing import slowest
from dtlib import launch, recordings

TOKENS, HIDDEN, WIDTH = 512, 128, 4096
SHARES = (25, 40, 50, 60, 75, 100)


def layer_times(shares, repetitions):
    """On each rank: the seconds of dispatch, experts and combine, by the share that rank 0 gets."""
    import torch
    import torch.distributed as dist

    from dtlib.foundations import TransformerSpec
    from dtlib.models.gpt import FeedForward
    from dtlib.parallelism import combine, dispatch, dropless_routes

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    spec = TransformerSpec("expert", layers=1, hidden=HIDDEN, heads=4, vocab=16, gated=True)
    expert = FeedForward(spec, WIDTH)
    x = torch.randn(TOKENS, HIDDEN)
    gate = torch.ones(TOKENS, 1)

    def run(share):
        hot = round(share / 100 * TOKENS)
        others = torch.arange(TOKENS - hot) % (P - 1) + 1
        routes = dropless_routes(
            torch.cat([torch.zeros(hot, dtype=torch.int64), others])[:, None], P, group
        )
        return combine(expert(dispatch(x, routes, group)), gate, routes, group)

    times = {}
    with torch.no_grad():
        for _ in range(repetitions + 2):
            for share in shares:
                dist.barrier()
                start = time.perf_counter()
                run(share)
                times.setdefault(f"{share} %", []).append(time.perf_counter() - start)
            dist.barrier()
            start = time.perf_counter()
            if rank == 0:
                expert(x)
            times.setdefault("alone", []).append(time.perf_counter() - start)
            dist.barrier()
    return {label: series[2:] for label, series in times.items()}


def measure_expert_skew() -> None:
    with launch(4) as ranks:
        times = slowest(ranks.run(layer_times, SHARES, 15))
    recordings.save("expert-skew-4-ranks", times, unit="s", ranks=4, shares=list(SHARES))
