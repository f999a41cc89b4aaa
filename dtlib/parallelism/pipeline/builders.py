"""The schedules whose stages stand on the ranks in one direction, each built from one sentence.

Arguments of all: ``p`` ranks, ``m`` micro-batches. Rank r holds stage r, or where stages are
interleaved stages r, r + p, r + 2p, ...
"""

import operator
from itertools import chain

from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule


def gpipe(p: int, m: int) -> PipelineSchedule:
    """All forward passes, then all backward passes.

    Equation: row r is F_0 ... F_(m-1), BW_0 ... BW_(m-1).
    Arguments: ``p`` ranks, ``m`` micro-batches. Returns a `PipelineSchedule` of p stages.
    Raises ValueError for fewer than one of either. The paper runs the backward passes in reverse,
    which takes as long; in our order every schedule adds up its gradients alike.
    Source: Huang et al. 2019.

    >>> print(gpipe(2, 3).rows[1])
    (1F0, 1F1, 1F2, 1BW0, 1BW1, 1BW2)
    """
    at_least_one(p=p, m=m)
    return PipelineSchedule(
        ([Action(kind, r, i) for kind in ("F", "BW") for i in range(m)] for r in range(p)),
        m,
        name="GPipe",
    )


def one_f_one_b(p: int, m: int) -> PipelineSchedule:
    """One forward, one backward, after p - 1 - r forward passes that fill the pipeline below.

    Equation: row r is F_0 ... F_(p-2-r), then F_(p-1-r+i), BW_i for every i while there are F.
    Arguments: ``p`` ranks, ``m`` micro-batches. Returns a `PipelineSchedule` of p stages.
    Raises ValueError for fewer than one of either.
    Source: Narayanan et al. 2019 and, with a flush after each batch, Fan et al. 2021.

    >>> print(one_f_one_b(2, 3).rows[0])
    (0F0, 0F1, 0BW0, 0F2, 0BW1, 0BW2)
    """
    at_least_one(p=p, m=m)
    rows = (
        _alternate(
            [Action("F", r, i) for i in range(m)],
            [Action("BW", r, i) for i in range(m)],
            warm_up=p - 1 - r,
        )
        for r in range(p)
    )
    return PipelineSchedule(rows, m, name="1F1B")


def interleaved(p: int, m: int, v: int) -> PipelineSchedule:
    """1F1B over v stages per rank: p micro-batches pass one stage, then the next one.

    Equation: rank r holds the stages r, r + p, ...; its forward passes, and with the stages in
    reverse its backward passes, go through each p micro-batches stage by stage;
    (v-1) p + 2 (p-1-r) forward passes come before the first backward pass.
    Arguments: ``p`` ranks, ``m`` micro-batches, a multiple of p; ``v`` stages per rank. Returns a
    `PipelineSchedule` of p v stages. Raises ValueError otherwise.
    Source: Narayanan et al. 2021.

    >>> print(interleaved(2, 2, v=2).rows[1])
    (1F0, 1F1, 3F0, 3BW0, 3F1, 3BW1, 1BW0, 1BW1)
    """
    at_least_one(p=p, m=m, v=v)
    if m % p:
        raise ValueError(
            f"m must be a multiple of p, because p micro-batches at a time pass each of a rank's "
            f"stages; got m = {m}, p = {p}"
        )
    rows = []
    for r in range(p):
        turns = [(chunk, i) for first in range(0, m, p) for chunk in range(v)
                 for i in range(first, first + p)]  # fmt: skip
        forward = [Action("F", chunk * p + r, i) for chunk, i in turns]
        backward = [Action("BW", (v - 1 - chunk) * p + r, i) for chunk, i in turns]
        rows.append(_alternate(forward, backward, warm_up=(v - 1) * p + 2 * (p - 1 - r)))
    return PipelineSchedule(rows, m, p * v, name=f"interleaved 1F1B, v = {v}")


def zero_bubble(p: int, m: int, c) -> PipelineSchedule:
    """1F1B with the backward pass split, W put off by a fixed number of micro-batches.

    Equation: with n_r = round(c (p-1-r)) + 1 and L = n_0, rank r runs n_r forward passes; then for
    every i: B_i, W_(i - lag) from i = lag = L - n_r on, and the next F; at the end the other W.
    Arguments: ``p`` ranks, ``m`` micro-batches, ``c``, how many micro-batches more each earlier
    rank takes in: 1 is ZB-H1, which holds as many activations as 1F1B, 2 is ZB-H2.
    Returns a `PipelineSchedule` of p stages. Raises ValueError for c < 0, or no p or m.
    Source: Qi et al. 2023 for c = 1 and 2.

    >>> for row in zero_bubble(2, 3, c=1).rows:
    ...     print(row)
    (0F0, 0F1, 0B0, 0W0, 0F2, 0B1, 0W1, 0B2, 0W2)
    (1F0, 1B0, 1F1, 1B1, 1W0, 1F2, 1B2, 1W1, 1W2)
    """
    at_least_one(p=p, m=m)
    if c < 0:
        raise ValueError(f"c must not be negative; got c = {c}")
    rows = []
    most = round(c * (p - 1)) + 1
    for r in range(p):
        ahead = round(c * (p - 1 - r)) + 1
        lag = most - ahead
        row = [Action("F", r, i) for i in range(min(ahead, m))]
        for i in range(m):
            row.append(Action("B", r, i))
            if i >= lag:
                row.append(Action("W", r, i - lag))
            if ahead + i < m:
                row.append(Action("F", r, ahead + i))
        row += [Action("W", r, i) for i in range(max(0, m - lag), m)]
        rows.append(row)
    name = {1: "ZB-H1", 2: "ZB-H2"}.get(c, f"zero bubble, c = {c}")
    return PipelineSchedule(rows, m, name=name)


def _alternate(forward: list, backward: list, warm_up: int) -> list:
    """``warm_up`` forward actions, then one forward and one backward each, then what is left."""
    first, in_turn = forward[:warm_up], forward[warm_up:]
    pairs = zip(in_turn, backward, strict=False)
    return [*first, *chain.from_iterable(pairs), *backward[len(in_turn) :]]


def at_least_one(**counts: int) -> None:
    """Raise ValueError for a count of nothing."""
    for name, count in counts.items():
        if operator.index(count) < 1:
            raise ValueError(f"{name} must be at least 1; got {name} = {count}")
