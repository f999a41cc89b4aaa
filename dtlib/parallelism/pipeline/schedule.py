"""A pipeline's schedule as data: what every rank does, in which order.

The nouns, from small to large:

- **Stage**: one of the pieces, numbered from 0, into which a model's layers are cut. A rank may
  hold several; ``v`` is how many on average.
- **Micro-batch**: a part of the batch that travels through the stages by itself.
- **Action**: what one stage does for one micro-batch. ``F`` is the forward pass. ``B`` is the
  gradient of its input, which the stage before waits for, and ``W`` the gradient of its weights,
  which nobody waits for. ``BW`` is both at once, the usual backward pass. Written down, ``2F0`` is
  the forward pass of stage 2 for micro-batch 0.
- **Together**: a forward and a backward pass that share a rank's time, ``0F3&7BW1``.
- **PipelineSchedule**: for every rank its row, the actions in order. Nothing else: whoever checks,
  times, draws or runs a pipeline reads the same rows.

A rank waits until what an action needs is there, and never changes the order of its row.
"""

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from operator import itemgetter
from typing import NamedTuple

from dtlib.parallelism.pipeline.collector import collector_at_rest
from dtlib.parallelism.pipeline.grid import grid
from dtlib.parallelism.pipeline.results import Results

KINDS = {
    "F": "forward",
    "B": "gradient of the input",
    "W": "gradient of the weights",
    "BW": "backward, of input and weights",
}


class Action(NamedTuple):
    """``stage`` does its forward pass or a part of its backward pass for ``micro_batch``.

    >>> Action("F", stage=2, micro_batch=0)
    2F0
    >>> Action.read("1BW7")
    1BW7
    """

    kind: str
    stage: int
    micro_batch: int

    @classmethod
    def read(cls, text: str) -> "Action":
        """The action that is written ``text``; ValueError if none is."""
        parts = re.fullmatch(r"(\d+)(F|BW|B|W)(\d+)", text)
        if not parts:
            raise ValueError(
                f"{text!r} is no action; write stage, kind (F, B, W or BW), micro-batch: 2F0"
            )
        return cls(parts[2], int(parts[1]), int(parts[3]))

    @property
    def actions(self) -> tuple["Action"]:
        """The action itself: a row's entry that is only one."""
        return (self,)

    def gives(self) -> tuple[tuple, ...]:
        """What is there once the action is done: (kind, stage, micro-batch)."""
        kind, s, i = self
        return (("B", s, i), ("W", s, i)) if kind == "BW" else (self,)

    def needs(self, stages: int) -> tuple[tuple, ...]:
        """What must be there before the action begins, in a model of so many ``stages``.

        >>> Action("B", 1, 5).needs(stages=4)
        (('F', 1, 5), ('B', 2, 5))
        """
        kind, s, i = self
        if kind == "F":
            return (("F", s - 1, i),) if s else ()
        if kind == "W":
            return (("B", s, i),)
        return (("F", s, i), ("B", s + 1, i)) if s + 1 < stages else (("F", s, i),)

    def __repr__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"

    __str__ = __repr__


class Together(NamedTuple):
    """A ``forward`` and a ``backward`` action that a rank does at once, in the time of both.

    Both begin when all that they need is there, and both end together.

    >>> Together(Action("F", 0, 3), Action("BW", 7, 1))
    0F3&7BW1
    """

    forward: Action
    backward: Action

    @property
    def actions(self) -> tuple[Action, Action]:
        """The two."""
        return (self.forward, self.backward)

    def gives(self) -> tuple[tuple, ...]:
        """What is there once both are done."""
        return self.forward.gives() + self.backward.gives()

    def needs(self, stages: int) -> tuple[tuple, ...]:
        """What must be there before the two begin."""
        return self.forward.needs(stages) + self.backward.needs(stages)

    def __repr__(self) -> str:
        return f"{self.forward}&{self.backward}"

    __str__ = __repr__


Step = Action | Together


@dataclass(frozen=True, repr=False)
class PipelineSchedule:
    """What each of ``p`` ranks does for ``m`` micro-batches: ``rows[rank]``, in order.

    Arguments: ``rows``, one per rank, each a sequence of `Action`, `Together` or text such as
    "2F0", or one text with spaces between; ``m``, micro-batches; ``stages`` of the model (None: one
    per rank); ``name``, for titles; ``owed``, what every stage owes each micro-batch: "FBW", or "F"
    where nothing is learned. Nothing is judged here but the form: `check_schedule` says whether the
    rows are a pipeline. Raises ValueError for text that is no action, and for a stage or a
    micro-batch that does not exist.

    >>> there_and_back = PipelineSchedule(["0F0 0BW0", "1F0 1BW0"], m=1, name="there and back")
    >>> print(there_and_back)
    there and back: 2 ranks, 2 stages, 1 micro-batch
    rank 0 | 0F0            0BW0
    rank 1 |      1F0  1BW0
    >>> there_and_back.rank_of(stage=1, micro_batch=0)
    1
    """

    rows: tuple[tuple[Step, ...], ...]
    m: int
    stages: int | None = None
    name: str = "schedule"
    owed: str = "FBW"

    def __post_init__(self):
        set_field = object.__setattr__
        with collector_at_rest():
            set_field(self, "rows", tuple(map(_row, self.rows)))
        set_field(self, "stages", len(self.rows) if self.stages is None else self.stages)
        for field in ("p", "m", "stages"):
            if operator.index(getattr(self, field)) < 1:
                raise ValueError(f"{field} must be at least 1; got {getattr(self, field)}")
        if self.owed not in ("FBW", "F"):
            raise ValueError(f"owed must be 'FBW' or 'F'; got {self.owed!r}")
        kinds = [kind for kind in KINDS if set(kind) <= set(self.owed)]
        for rank, row in enumerate(self.rows):
            if not self._exist(self._actions[rank], kinds):
                step = next(step for step in row if not self._exist(step.actions, kinds))
                raise ValueError(
                    f"rank {rank}: {step} does not exist; kinds are {', '.join(kinds)}, "
                    f"stages 0..{self.stages - 1}, micro-batches 0..{self.m - 1}"
                )

    def _exist(self, actions: Sequence[Action], kinds: list[str]) -> bool:
        """Whether there are all of these, looked at by column: a row may have thousands."""
        if not actions:
            return True
        kind, stage, micro_batch = zip(*actions, strict=True)
        return set(kind) <= set(kinds) and all(
            min(column) >= 0 and max(column) < count and _whole(column)
            for column, count in ((stage, self.stages), (micro_batch, self.m))
        )

    @property
    def p(self) -> int:
        """How many ranks there are."""
        return len(self.rows)

    @cached_property
    def v(self):
        """Stages per rank: a stage is 1/v of the work of one rank."""
        return plain(Fraction(self.stages, self.p))

    def actions(self, rank: int) -> list[Action]:
        """What a rank does, in order; a `Together` as its two actions."""
        return list(self._actions[rank])

    @cached_property
    def _actions(self) -> list[tuple[Action, ...]]:
        return [
            tuple(action for step in row for action in step.actions)
            if any(type(step) is Together for step in row)
            else row
            for row in self.rows
        ]

    def by_step(self, rank: int, values: list) -> list:
        """Of one value for each action one for each step: a sum where two are done at once.

        >>> PipelineSchedule(["0F0 0F1&0BW0 0BW1"], m=2).by_step(0, [1, 1, 2, 2])
        [1, 3, 2]
        """
        if len(values) == len(self.rows[rank]):
            return values
        left = iter(values)
        return [
            next(left) + next(left) if type(step) is Together else next(left)
            for step in self.rows[rank]
        ]

    @cached_property
    def results(self) -> Results:
        """What each step needs and gives, by number."""
        return Results(self)

    def stages_of(self, rank: int) -> list[int]:
        """The stages whose weights a rank must hold."""
        return sorted({action.stage for action in self.actions(rank)})

    def rank_of(self, stage: int, micro_batch: int) -> int:
        """The rank that does the forward pass of ``stage`` for ``micro_batch``.

        It depends on the micro-batch only where a stage has two copies (`dual_pipe`). Raises
        KeyError if nobody does it.
        """
        return self._ranks[stage, micro_batch]

    @cached_property
    def _ranks(self) -> dict[tuple[int, int], int]:
        return {
            (action.stage, action.micro_batch): rank
            for rank in range(self.p)
            for action in self.actions(rank)
            if action.kind == "F"
        }

    @cached_property
    def splits_backward(self) -> bool:
        """Whether any backward pass is split into B and W."""
        return any({"B", "W"} & set(map(itemgetter(0), row)) for row in self._actions)

    @cached_property
    def peak_activations(self) -> list:
        """For each rank the most micro-batches whose activations it holds at once.

        In micro-batches of a whole rank's share: one stage of v counts 1/v. They are kept from the
        forward pass until the gradient of the weights is done; without one they are not kept.
        """
        return self.peak_memory(kept=1)

    def peak_memory(self, kept) -> list:
        """`peak_activations` if B lets go of all but the share ``kept`` of its activations.

        What multiplications by a weight took in is needed for W; what attention multiplied is not.

        >>> PipelineSchedule(["0F0 0F1 0B0 0B1 0F2 0B2 0W0 0W1 0W2"], m=3).peak_memory(kept=1 / 4)
        [2.0]
        """
        if "W" not in self.owed:
            return [0] * self.p
        return [_peak(self.actions(rank), self.v, kept) for rank in range(self.p)]

    @property
    def forward_only(self) -> "PipelineSchedule":
        """Its forward passes, in the same order: for a validation, or to use the model.

        >>> print(PipelineSchedule(["0F0 0BW0", "1F0 1BW0"], m=1).forward_only)
        schedule, forward only: 2 ranks, 2 stages, 1 micro-batch
        rank 0 | 0F0
        rank 1 |      1F0
        """
        rows = [[a for a in self.actions(rank) if a.kind == "F"] for rank in range(self.p)]
        return replace(self, rows=rows, name=f"{self.name}, forward only", owed="F")

    def named(self, name: str) -> "PipelineSchedule":
        """The same rows under another name."""
        return replace(self, name=name)

    def with_row(self, rank: int, row: Iterable) -> "PipelineSchedule":
        """The same schedule with another row for ``rank``.

        >>> schedule = PipelineSchedule(["0F0 0BW0", "1F0 1BW0"], m=1)
        >>> schedule.with_row(1, "1F0 1B0 1W0").rows[1]
        (1F0, 1B0, 1W0)
        """
        return replace(self, rows=(*self.rows[:rank], row, *self.rows[rank + 1 :]))

    def __repr__(self) -> str:
        counts = ((self.p, "rank"), (self.stages, "stage"), (self.m, "micro-batch"))
        return f"{self.name}: " + ", ".join(f"{k} {what}{_plural(k, what)}" for k, what in counts)

    def __str__(self) -> str:
        return f"{self!r}\n{grid(self)}"


def _whole(numbers: Sequence) -> bool:
    return all(issubclass(found, Integral) for found in set(map(type, numbers)))


def _plural(count: int, what: str) -> str:
    return "" if count == 1 else "es" if what.endswith("ch") else "s"


def _row(row) -> tuple[Step, ...]:
    steps = row.split() if isinstance(row, str) else row
    return tuple(step if type(step) is Action else _step(step) for step in steps)


def _step(step) -> Step:
    if isinstance(step, str):
        parts = [Action.read(text) for text in step.split("&")]
        return parts[0] if len(parts) == 1 else Together(*parts)
    if isinstance(step, Together):
        return step
    return Action(*step)


def _peak(actions: list[Action], v, kept):
    """The most stages held at once, over v; between B and W a stage counts ``kept``."""
    counts, most = dict.fromkeys("FBW", 0), 0
    for action in actions:
        for kind in action.kind:
            counts[kind] += 1
        under_way, put_off = counts["F"] - counts["B"], counts["B"] - counts["W"]
        most = max(most, under_way + kept * put_off)
    return most if v == 1 else _over(most, v)


def _over(count: int, v):
    return plain(Fraction(count) / Fraction(v))


def plain(share: Fraction):
    """The same number as an int or a float, if one of them is exactly it."""
    if share.denominator == 1:
        return share.numerator
    return float(share) if float(share) == share else share
