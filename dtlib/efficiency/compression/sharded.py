"""Quantised gathers of sharded training: ZeRO++'s weights in 8 bits, gradients in 4.

Weights may be rounded anew for each use, because the rank that owns them keeps them exactly. A
gradient's reduce-scatter becomes an exchange: every part is rounded once and added up exactly. In a
ring it would be rounded at every hop.
"""

import torch

from dtlib.efficiency.compression.compressor import Gathered
from dtlib.efficiency.compression.programs import Exchange, Gather, Program, Who


def quantised_all_gather(shard: torch.Tensor, levels: Gathered) -> Program:
    """All ranks' parts end to end, each as its message says it, one's own too.

    Arguments: `shard`, a vector, of one length on all ranks; `levels`, such as ``Levels(bits=8)``.
    So that all ranks compute with the same weights nobody takes its own exact ones.
    Source: Wang et al. 2023 (qwZ).
    """
    rank, _ = yield Who()
    messages = yield Gather(levels.encode(shard, rank))
    return torch.cat([levels.decoded(message, shard) for message in messages])


def quantised_reduce_scatter(whole: torch.Tensor, levels: Gathered) -> Program:
    """The mean over the ranks of this rank's part of a vector, each rank's rounded once.

    Arguments: `whole`, a vector whose length P divides; `levels`, such as ``Levels(bits=4)``.
    Raises ValueError for another length. Source: Wang et al. 2023 (qgZ).
    """
    rank, P = yield Who()
    parts = _parts(whole, P)
    found = yield Exchange([levels.encode(part, rank) for part in parts])
    total = torch.zeros_like(parts[0])
    for message in found:
        levels.add(message, total)
    return total / P


def ring_of_rounded_sums(wholes: list[torch.Tensor], levels: Gathered) -> list[torch.Tensor]:
    """The same by a ring that rounds each partial sum before it is passed on: what to avoid.

    Argument: `wholes`, the vectors of all ranks. Returns the mean of each rank's part. In this
    process: part i starts at rank i + 1 and ends at rank i, after P - 1 hops.
    """
    P = len(wholes)
    means = []
    for i in range(P):
        total = _parts(wholes[(i + 1) % P], P)[i]
        for hop in range(2, P + 1):
            sent = levels.decoded(levels.encode(total, 0), total)
            total = sent + _parts(wholes[(i + hop) % P], P)[i]
        means.append(total / P)
    return means


def _parts(whole: torch.Tensor, P: int) -> torch.Tensor:
    if whole.numel() % P:
        raise ValueError(f"whole has {whole.numel()} numbers, which {P} ranks cannot share evenly")
    return whole.view(P, -1)
