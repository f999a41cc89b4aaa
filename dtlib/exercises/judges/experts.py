"""Judge of a router that may visit few nodes."""

from typing import Any

from dtlib.exercises.judge import items, whole
from dtlib.exercises.verdict import NotYet


def same_experts(given: Any, right, score, k: int, nodes: int, most: int) -> None:
    """Raise `NotYet` unless the best experts on at most so many nodes are named, best first."""
    given = [whole(expert, "an expert") for expert in items(given, "the result", k)]
    if len(set(given)) != k or not set(given) <= {*range(len(score))}:
        raise NotYet(f"name {k} different experts")
    if len({expert * nodes // len(score) for expert in given}) > most:
        raise NotYet("the token visits too many nodes")
    if set(given) != set(right):
        raise NotYet("which nodes have the largest sums, and which experts on them are best?")
    if given != list(right):
        raise NotYet("the right experts; the best must stand first")
