"""Which sample comes when: shuffled, shared among ranks, and the same after a crash.

The nouns:

- **Step**: one batch of all ranks together, numbered from 0 through the whole run.
- **Epoch**: the steps in which every sample comes once.
- **Share**: the part of a batch that one rank gets.
- **State**: what must be stored so that a run can go on as if it had never stopped.

`global_batch` is a function of the step alone: its state is one number. A `ShuffleBuffer` reads a
stream that cannot be read in another order: its state includes what it holds.
"""

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from dtlib.errors import DtlibError


class EpochError(DtlibError, AssertionError):
    """Samples that come twice, or never, with the first of each."""


def global_batch(step: int, samples: int, batch: int, seed: int = 0) -> np.ndarray:
    """The samples of one step, for all ranks together.

    Equation: the step's slice of the epoch's permutation, which depends on seed and epoch only.
    Arguments: `step`, from 0 through the whole run; `samples` in the data; `batch` samples a step;
    `seed` of the run. Where `batch` does not divide `samples`, the epoch's last few are left out.
    Returns an array of sample numbers. Raises ValueError for a negative step and a batch of no
    sample or of more than there are. Source: the definition of an epoch.

    >>> [sorted(global_batch(step, samples=6, batch=3).tolist()) for step in (0, 1)]
    [[2, 3, 5], [0, 1, 4]]
    """
    if step < 0:
        raise ValueError(f"step: {step}, but must not be negative")
    if not 1 <= batch <= samples:
        raise ValueError(f"batch: {batch}, but must be from 1 to the {samples} samples there are")
    epoch, place = divmod(step, samples // batch)
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    return order[place * batch : (place + 1) * batch]


def rank_share(batch: Sequence, rank: int, P: int) -> Sequence:
    """The part of a batch that `rank` of `P` gets: neighbours, so that joining shares restores it.

    Arguments: `batch`, a sequence whose length P divides; `rank` and `P`.
    Returns a slice of it. Raises ValueError where P does not divide the batch, or for no such rank.

    >>> rank_share("abcdef", rank=1, P=3)
    'cd'
    """
    if not 0 <= rank < P:
        raise ValueError(f"rank: {rank}, but must be from 0 to {P - 1}")
    if len(batch) % P:
        raise ValueError(f"P: {P} ranks cannot share {len(batch)} samples evenly")
    size = len(batch) // P
    return batch[rank * size : (rank + 1) * size]


def check_epoch(seen: Iterable[int], samples: int) -> None:
    """Raise `EpochError` unless every sample from 0 to `samples` - 1 comes exactly once.

    >>> check_epoch([2, 0, 2], samples=3)
    Traceback (most recent call last):
    ...
    dtlib.foundations.data.sampling.EpochError: twice or more: 1 of 3 samples, the first is 2; ...
    """
    counts = np.bincount(np.fromiter(seen, dtype=int), minlength=samples)
    if len(counts) > samples:
        raise EpochError(f"sample {len(counts) - 1} comes, but there are only {samples}")
    faults = [
        f"{word}: {len(found)} of {samples} samples, the first is {found[0]}"
        for word, found in (
            ("twice or more", np.flatnonzero(counts > 1)),
            ("never", np.flatnonzero(counts == 0)),
        )
        if len(found)
    ]
    if faults:
        raise EpochError("; ".join(faults))


class ShuffleBuffer:
    """Shuffles a stream that can only be read forwards, with `size` samples in memory.

    It fills `size` slots; then it gives out the sample of a random slot and puts the next of the
    stream into it; when the stream is over it gives out the rest. `state` is all that a copy needs
    in order to go on: how much was read, how many were given out, and what the slots hold.
    Arguments: `stream`, a sequence that is read forwards; `size`, a count; `seed`; `state` of
    another buffer on the same stream. Raises ValueError for a buffer without slots.

    >>> buffer = ShuffleBuffer("abcdefgh", size=3)
    >>> first = [next(buffer) for _ in range(4)]
    >>> rest = list(ShuffleBuffer("abcdefgh", size=3, state=buffer.state))
    >>> sorted(first + rest)
    ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    """

    def __init__(self, stream: Sequence, size: int, seed: int = 0, state: dict | None = None):
        if size < 1:
            raise ValueError(f"size: {size}, but must be at least 1")
        self.stream, self.size, self.seed = stream, size, seed
        state = {"read": 0, "given": 0, "held": []} | (state or {})
        self.read, self.given, self.held = state["read"], state["given"], list(state["held"])

    @property
    def state(self) -> dict:
        """What a copy needs in order to go on."""
        return {"read": self.read, "given": self.given, "held": list(self.held)}

    def __iter__(self):
        return self

    def __next__(self):
        while len(self.held) < self.size and self.read < len(self.stream):
            self.held.append(self._next_of_stream())
        if not self.held:
            raise StopIteration
        slot = random.Random(f"{self.seed} {self.given}").randrange(len(self.held))
        self.given += 1
        if self.read < len(self.stream):
            sample, self.held[slot] = self.held[slot], self._next_of_stream()
            return sample
        return self.held.pop(slot)

    def _next_of_stream(self):
        self.read += 1
        return self.stream[self.read - 1]


def mixed(weights: Sequence, count: int) -> list[int]:
    """Which of several sources each of `count` samples comes from, without dice.

    Equation: the next sample comes from the source that is furthest behind its share.
    Arguments: `weights`, positive, of any sum; `count`. Returns source numbers; of equals, the
    first. No source is ever a whole sample ahead of its share. Raises ValueError for a weight that
    is not positive. Source: the greedy rule; the bound, because all arrears add up to one sample.

    >>> "".join("abc"[source] for source in mixed([5, 3, 2], 10))
    'abcaabacba'
    """
    if not weights or min(weights) <= 0:
        raise ValueError(f"weights: {list(weights)}, but every one must be positive")
    shares = [Fraction(weight) / sum(map(Fraction, weights)) for weight in weights]
    behind, chosen = [Fraction(0)] * len(shares), []
    for _ in range(count):
        behind = [arrears + share for arrears, share in zip(behind, shares, strict=True)]
        source = max(range(len(shares)), key=behind.__getitem__)
        behind[source] -= 1
        chosen.append(source)
    return chosen
