"""Judges of what feeds a run: orders of samples, batches, sequences, mixtures."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

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
    for n, count in enumerate(accumulate(source == 0 for source in sources), 1):
        off = count * (a + b) - n * a
        if abs(off) >= a + b:
            side = "ahead" if off > 0 else "behind"
            raise NotYet(f"{a} to {b}: after {n} samples source 0 is a whole sample {side}")
