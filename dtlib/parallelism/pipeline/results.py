"""What the steps of a schedule need and give, by number: what its loops read.

`Action.needs` and `Action.gives` say it by name. A pipeline of 64 ranks and 512 micro-batches has a
hundred thousand results, and a list is quicker than a table of names. A test holds the two accounts
to each other.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtlib.parallelism.pipeline.schedule import PipelineSchedule

Numbers = tuple[int, ...]


class Results:
    """For every step of every row the numbers of the results that it ``needs`` and ``gives``.

    Of each kind, F, then B, then W, stage s and micro-batch i have number (s + 1) m + i: there is
    room before the first stage and behind the last, for results that nobody makes.

    >>> from dtlib.parallelism.pipeline import gpipe
    >>> results = gpipe(2, 1).results
    >>> results.needs[1], results.gives[1]
    ([(1,), (2, 7)], [(2,), (6, 10)])
    >>> results.named(6)
    '1B0'
    """

    def __init__(self, schedule: "PipelineSchedule"):
        self.m, self.stages = schedule.m, schedule.stages
        self.of_a_kind = (self.stages + 2) * self.m
        self.count = 3 * self.of_a_kind
        self.needs: list[list[Numbers]] = []
        self.gives: list[list[Numbers]] = []
        for rank in range(schedule.p):
            needs, gives = self._of_row(schedule.actions(rank))
            self.needs.append(schedule.by_step(rank, needs))
            self.gives.append(schedule.by_step(rank, gives))

    def _of_row(self, actions: list) -> tuple[list[Numbers], list[Numbers]]:
        m, of_a_kind = self.m, self.of_a_kind
        needs, gives = [], []
        for kind, s, i in actions:
            f = (s + 1) * m + i
            b = f + of_a_kind
            w = b + of_a_kind
            if kind == "F":
                needs.append((f - m,))
                gives.append((f,))
            elif kind == "W":
                needs.append((b,))
                gives.append((w,))
            else:
                needs.append((f, b + m))
                gives.append((b, w) if kind == "BW" else (b,))
        return needs, gives

    def of(self, kind: str) -> range:
        """The numbers of all results of a kind, stage by stage."""
        first = "FBW".index(kind) * self.of_a_kind + self.m
        return range(first, first + self.stages * self.m)

    @property
    def made_by_nobody(self) -> list[int]:
        """What the first forward passes and the last stage's backward passes begin with."""
        m, behind = self.m, self.of("B").stop
        return [*range(m), *range(behind, behind + m)]

    def forward_of(self, number: int) -> int:
        """The forward pass of the same stage and micro-batch."""
        return number % self.of_a_kind

    def named(self, number: int) -> str:
        """The action that makes a result, as it is written."""
        kind, rest = divmod(number, self.of_a_kind)
        stage, micro_batch = divmod(rest, self.m)
        return f"{stage - 1}{'FBW'[kind]}{micro_batch}"
