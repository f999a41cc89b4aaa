"""How many layouts a second does `rank_memories` count, on one core?

    python -m benchmarks.memory.rank_memories_pace [--ranks 512]

Every layout of powers of two that a step of 4,096 sequences allows, for a few models.
"""

import argparse
import time
from itertools import product

import numpy as np

from dtlib.foundations import published_models
from dtlib.layouts import Layouts
from dtlib.memory import launch_queue, rank_memories

BATCH, SEQ = 4096, 4096
AXES = ((1, 2, 4, 8, 16), (1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64))
HOW = (range(4), (1, 2, 4), (1, 2, 4, 8, 16), (False, True), range(3))


def grid(spec, ranks: int) -> Layouts:
    """The layouts, as columns."""
    tp, cp, pp, ep, zero, interleave, micro_batch, sequence_parallel, recompute = np.array(
        list(product(*AXES, *HOW))
    ).T
    replica = tp * cp * pp
    dp = ranks // replica
    experts = spec.moe.experts if spec.moe else 1
    at_once = np.maximum(dp, 1) * micro_batch
    good = (dp * replica == ranks) & (BATCH % at_once == 0) & (pp <= spec.layers)
    good &= (experts % ep == 0) & (dp * cp % ep == 0) & (spec.heads % tp == 0)
    whole = (BATCH // at_once % pp == 0) & (spec.layers % (pp * interleave) == 0) & (pp > 1)
    good &= (interleave == 1) | whole
    columns = (tp, cp, pp, dp, ep, zero, interleave, micro_batch, sequence_parallel == 1)
    flash = np.ones(good.sum(), dtype=bool)
    return Layouts(spec.layers, *(c[good] for c in columns), flash, recompute[good])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=512)
    ranks = parser.parse_args().ranks
    for name in ("llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3"):
        spec = published_models[name]
        layouts = grid(spec, ranks)
        for options in ({"allocator": launch_queue}, {"program": "megatron"}):
            start = time.process_time()
            rank_memories(spec, layouts, batch=BATCH, seq=SEQ, recipe="32-bit sums", **options)
            seconds = time.process_time() - start
            pace = len(layouts) / seconds
            print(
                f"{name:<16} {len(layouts):>8,} layouts {seconds:>6.2f} s {pace:>10,.0f} a second"
            )


if __name__ == "__main__":
    main()
