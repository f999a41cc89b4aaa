"""Judge of what leaves where there is no room: no other choices may need fewer fetches."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from dtlib.exercises.judge import call, function
from dtlib.exercises.verdict import NotYet


def sequences() -> Iterator[tuple[str, list[int], int]]:
    """Names, layers in the order in which they are needed, and for how many there is room."""
    yield "a loop of five layers", [*range(5)] * 3, 3
    yield "there and back", [*range(5), *range(4, -1, -1)] * 2, 3
    yield "a layer that is never used again", [0, 1, 2, 3, 1, 2, 3, 1], 3
    draw = random.Random(1966)
    for _ in range(25):
        layers, room = draw.randint(3, 6), draw.randint(2, 4)
        yield f"a sequence of {layers} layers", [draw.randrange(layers) for _ in range(14)], room


def fetches(victim: Callable, sequence: list[int], room: int) -> int:
    """How often a layer must be fetched where ``victim`` names what leaves."""
    here: list[int] = []
    count = 0
    for i, layer in enumerate(sequence):
        if layer in here:
            continue
        count += 1
        if len(here) == room:
            leaves = call(victim, list(here), list(sequence[i:]))
            if isinstance(leaves, bool) or leaves not in here:
                raise NotYet(f"{leaves!r} is not among those that are here, {here}")
            here.remove(leaves)
        here.append(layer)
    return count


@cache
def fewest(sequence: tuple[int, ...], room: int) -> int:
    """The fewest fetches, found by trying all choices."""
    costs = {frozenset(): 0}
    for layer in sequence:
        after: dict[frozenset, int] = {}
        for here, cost in costs.items():
            stay = [here] if len(here) < room else [here - {leaves} for leaves in here]
            options = {here: cost} if layer in here else {h | {layer}: cost + 1 for h in stay}
            for state, price in options.items():
                after[state] = min(price, after.get(state, price))
        costs = after
    return min(costs.values())


def victim_law(answer: Any) -> None:
    """Raise `NotYet` unless no choices need fewer fetches than those of ``answer``."""
    function(answer, "victim(here, coming)")
    for name, sequence, room in sequences():
        found = fetches(answer, sequence, room)
        if found > fewest(tuple(sequence), room):
            raise NotYet(
                f"{name}, room for {room}: {found} fetches with your choices, and fewer would do"
            )
