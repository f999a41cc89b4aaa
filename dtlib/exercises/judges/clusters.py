"""Judges of layouts on a cluster: which there are, what they cost, and which is the fastest."""

import math
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from dtlib.exercises.judge import items, whole
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.tensor.cost import activation_message_bytes

Degrees = tuple[int, int, int]


def legal_layouts(gpus: int, node: int, layers: int, batch: int) -> Iterator[Degrees]:
    """All (tp, pp, dp) on so many GPUs that divide nodes, layers and sequences.

    >>> [*legal_layouts(8, node=4, layers=6, batch=4)]
    [(1, 2, 4), (2, 1, 4), (2, 2, 2), (4, 1, 2), (4, 2, 1)]
    """
    for tp, pp in product(range(1, node + 1), range(1, layers + 1)):
        dp, rest = divmod(gpus, tp * pp)
        if dp and not (rest or node % tp or layers % pp or batch % dp):
            yield tp, pp, dp


def fastest(gpus, node, layers, batch, time, fits) -> Degrees:
    """Of the layouts that fit the one that takes least time, by trying all."""
    fitting = [one for one in legal_layouts(gpus, node, layers, batch) if fits(*one)]
    return min(fitting, key=lambda layout: time(*layout))


def is_fastest(given: Any, right: Degrees, gpus, node, layers, batch, time, fits) -> None:
    """Raise `NotYet` unless (tp, pp, dp) is legal, fits, and takes no longer than ``right``."""
    layout = tp, pp, dp = tuple(whole(n, "a degree") for n in items(given, "(tp, pp, dp)", 3))
    if min(layout) < 1 or tp * pp * dp != gpus:
        raise NotYet(f"{layout} are {tp * pp * dp} GPUs, not {gpus}")
    if layout not in legal_layouts(gpus, node, layers, batch):
        raise NotYet(f"{layout}: tp must divide a node, pp the layers, dp the batch")
    if not fits(*layout):
        raise NotYet(f"{layout} does not fit into the memory of a GPU")
    if time(*layout) > time(*right) * (1 + 1e-9):
        raise NotYet(f"{layout} fits, and another one that fits is faster")


def clusters() -> Iterator[tuple[str, tuple]]:
    """Cases of a search: models on A100s, and tables in which every time is drawn."""
    for gpus, billions, layers, batch, room in (
        (8, 1, 24, 64, 80), (64, 40, 48, 64, 80), (64, 65, 80, 512, 40),
        (128, 175, 96, 512, 40), (1024, 175, 96, 1536, 80),
    ):  # fmt: skip
        model = _on_a100s(billions * 1e9, layers, batch, room * 1e9)
        yield (
            f"{gpus} GPUs of {room} GB, {billions} billion parameters",
            (gpus, 8, layers, batch, *model),
        )
    for seed in range(3):
        yield f"32 GPUs in nodes of 4, table {seed}", (32, 4, 12, 48, *_drawn(seed))


def _on_a100s(params: float, layers: int, batch: int, room: float) -> tuple[Callable, Callable]:
    """The time of a step of sequences of 2,048 tokens, and whether a GPU holds a rank's share."""
    hidden = math.sqrt(params / 12 / layers)
    n = activation_message_bytes(1, 2048, hidden)

    def time(tp: int, pp: int, dp: int) -> float:
        turn = 6 * params * 2048 / (tp * pp) / 150e12
        turn += 8 * layers / pp * (tp - 1) / tp * n / 300e9 + 2 * n / 25e9 * (pp > 1)
        return (batch / dp + pp - 1) * turn + 4 * (dp - 1) / dp * params / (tp * pp) / 25e9

    def fits(tp: int, pp: int, dp: int) -> bool:
        inputs = min(batch / dp, pp) * layers / pp * n
        return (4 + 12 / dp) * params / (tp * pp) + inputs < room

    return time, fits


def _drawn(seed: int) -> tuple[Callable, Callable]:
    """Times and room by chance; what is no legal layout is fast and fits."""
    draw = random.Random(seed)
    legal = [*legal_layouts(32, 4, 12, 48)]
    times = {one: 1 + draw.random() for one in legal}
    fitting = {*draw.sample(legal, len(legal) // 2)}
    return (
        lambda *layout: times.get(layout, 0.5),
        lambda *layout: layout in fitting or layout not in times,
    )
