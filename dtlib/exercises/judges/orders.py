"""Judges of what feeds a run: orders of samples, batches, sequences, mixtures."""

import copy
import json
import random
from collections.abc import Callable, Sequence
from itertools import accumulate, count, islice, pairwise
from typing import Any

from dtlib.exercises.judge import call, function, items, whole
from dtlib.exercises.verdict import NotYet


def shuffled_anew(run: Sequence[int], samples: int) -> None:
    """Raise `NotYet` unless every epoch of ``run`` holds all samples, in an order of its own.

    >>> shuffled_anew([3, 1, 0, 2, 3, 1, 0, 2], 4)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: the second epoch is not shuffled anew: ...
    """
    orders = [list(range(samples))]
    for name, start in zip(("first", "second", "third"), range(0, len(run), samples), strict=False):
        epoch = run[start : start + samples]
        repeats = samples - len(set(epoch) & set(orders[0]))
        if repeats:
            raise NotYet(f"in the {name} epoch on 4 ranks {repeats} samples are repeats")
        if any(len({*pairwise(epoch)} & {*pairwise(other)}) > samples / 2 for other in orders):
            raise NotYet(f"the {name} epoch is not shuffled anew: most neighbours stay neighbours")
        orders.append(epoch)


def same_batches(given: Sequence[int], right: Sequence[int], batch: int, P: int) -> None:
    """Raise `NotYet` unless ``P`` ranks see the batches of ``right``, each in the same order."""
    for i in range(0, len(right), batch):
        step, wanted = given[i : i + batch], right[i : i + batch]
        if set(step) != set(wanted):
            raise NotYet(f"on P = {P} a step has other batches than 4 ranks see")
        if step != wanted:
            raise NotYet(
                f"on P = {P} every step has the right samples, but joined rank by rank they come "
                "in another order than on 4"
            )


def same_sequences(pairs: Sequence[tuple], right: Sequence[list], where: str) -> None:
    """Raise `NotYet` at the first of ``pairs``, (sequence, state), that differs from ``right``."""
    for i, ((sequence, _), wanted) in enumerate(zip(pairs, right, strict=False)):
        if sequence != wanted:
            goes_on = sequence[:1] == wanted[:1]
            how = "is off" if goes_on else "does not begin where the one before ended"
            raise NotYet(f"{where}: sequence {i} of that run {how}")
    if len(pairs) != len(right):
        raise NotYet(f"{where}: {len(pairs)} sequences, but {len(right)} are whole")


def exact_mixture(sources: Sequence[int], a: int, b: int) -> None:
    """Raise `NotYet` unless source 0 never is a whole sample off its share a / (a + b)."""
    for n, taken in enumerate(accumulate(source == 0 for source in sources), 1):
        off = taken * (a + b) - n * a
        if abs(off) >= a + b:
            side = "ahead" if off > 0 else "behind"
            raise NotYet(f"{a} to {b}: after {n} samples source 0 is a whole sample {side}")


def mixes(answer: Callable) -> None:
    """Raise `NotYet` unless ``source(n, a, b)`` mixes exactly, whatever it was asked before."""
    function(answer, "source(n, a, b)")
    for a, b in ((1, 1), (5, 3), (9, 1), (1, 99), (2, 1), (37, 13)):
        chosen = {}
        for n in 2 * random.Random(11).sample(range(3 * (a + b)), 3 * (a + b)):
            given = whole(call(answer, n, a, b), "the source")
            if given not in (0, 1):
                raise NotYet("a source is 0 or 1")
            if chosen.setdefault(n, given) != given:
                raise NotYet("asked twice for the same sample, it names two sources")
        exact_mixture([chosen[n] for n in sorted(chosen)], a, b)


def same_owners(given: Any, right: list[int], costs: list, ranks: int, most: int) -> None:
    """Raise `NotYet` unless every pack has the rank that the rule gives it."""
    owners = [whole(owner, "a rank") for owner in items(given, "the ranks", len(costs))]
    if not set(owners) <= {*range(ranks)}:
        raise NotYet(f"ranks are 0 to {ranks - 1}")
    if max(map(owners.count, owners)) > most:
        raise NotYet(f"a rank has more than {most} packs")
    if owners != right:
        raise NotYet("another pack goes to another rank; who has least when its turn comes?")


def packs_and_resumes(answer: Callable) -> None:
    """Raise `NotYet` unless ``pack`` cuts into equal sequences, and goes on after any state."""
    function(answer, "pack(documents, length, state)")
    draw = random.Random(10)
    for length in (1, 4, 7):
        tokens = count()
        documents = [[*islice(tokens, draw.choice([0, 1, 2, 3, 5, 12, 20]))] for _ in range(25)]
        wholes = next(tokens) // length
        right = [[*range(i * length, (i + 1) * length)] for i in range(wholes)]

        def run(*state, documents=documents, length=length):
            pairs = answer(copy.deepcopy(documents), length, *state)
            return [(list(sequence), json.dumps(after)) for sequence, after in pairs]

        pairs = call(run)
        same_sequences(pairs, right, f"length {length}")
        for i, (_, state) in enumerate(pairs):
            if len(state) > 20 * length + 400:
                raise NotYet(f"length {length}: a state has {len(state)} characters: it grows")
            rest = call(lambda run=run, state=state: run(json.loads(state)))
            same_sequences(rest, right[i + 1 :], f"resumed after sequence {i}")
