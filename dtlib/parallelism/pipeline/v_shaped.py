"""Schedules in which micro-batches go down the ranks and come back up: a V of stages.

Rank r of p holds stage r, on the way down, and stage 2p - 1 - r, on the way back, so that the rank
that holds the first stage also holds the last. A row is written phase by phase, with `_Row`, which
counts the micro-batches. DualPipe is the same row twice, mirrored, in the place of the way back.
"""

from dtlib.parallelism.pipeline.builders import at_least_one
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule, Step, Together

DOWN, BACK = 0, 1


class _Row:
    """A row that is being written: what comes next is always the next micro-batch of its kind."""

    def __init__(self):
        self.steps: list[tuple] = []
        self.done = {(kind, leg): 0 for kind in "FBW" for leg in (DOWN, BACK)}
        self.put_off: list[tuple] = []

    def _next(self, kind: str, leg: int) -> tuple[str, int, int]:
        i = self.done[kind[0], leg]
        for part in kind:
            self.done[part, leg] += 1
        return kind, leg, i

    def do(self, *what: tuple[str, int]) -> None:
        """The next micro-batch of each (kind, leg), one after the other."""
        self.steps += [(self._next(kind, leg),) for kind, leg in what]

    def together(self, forward: int, backward: int) -> None:
        """The next forward pass of one leg and the next backward pass of the other, at once."""
        self.steps.append((self._next("F", forward), self._next("BW", backward)))

    def put_off_weights(self, leg: int) -> None:
        """The next input gradient; its W is to be done later."""
        self.do(("B", leg))
        self.put_off.append(("W", leg))

    def catch_up(self) -> None:
        """The oldest W that was put off."""
        self.do(self.put_off.pop(0))

    def actions(self, place) -> list[Step]:
        """The row, with ``place(leg, micro_batch)`` for the stage and the micro-batch, or None."""
        row = []
        for step in self.steps:
            placed = [(kind, place(leg, i)) for kind, leg, i in step]
            row.append([Action(kind, *where) for kind, where in placed if where])
        return [Together(*step) if len(step) > 1 else step[0] for step in row if step]


def zb_v(p: int, m: int) -> PipelineSchedule:
    """Zero bubble on a V: as soon as a micro-batch is back at its rank, its gradient can start.

    Equation: row r is 2(p-r)-1 times F down; r times F back, F down; p-r times F back, B back,
    W back; then F down, B down, W down, F back, B back, W back while there are any; r times B down,
    B back; p-r times B down, W down; and all W that are left.
    Arguments: ``p`` ranks, ``m`` micro-batches. Returns a `PipelineSchedule` of 2p stages. Raises
    ValueError for fewer than one of either. Source: Qi et al. 2023.

    >>> print(zb_v(2, 3).rows[0])
    (0F0, 0F1, 0F2, 3F0, 3B0, 3W0, 3F1, 3B1, 3W1, 0B0, 0W0, 3F2, 3B2, 3W2, 0B1, 0W1, 0B2, 0W2)
    """
    at_least_one(p=p, m=m)
    rows = []
    for r in range(p):
        row, n = _Row(), max(m, 2 * p - 1)
        down, back = [[(kind, leg) for kind in "FBW"] for leg in (DOWN, BACK)]
        row.do(*[("F", DOWN)] * (2 * (p - r) - 1))
        row.do(*[("F", BACK), ("F", DOWN)] * r)
        row.do(*back * (p - r))
        row.do(*(down + back) * (n - row.done["F", DOWN]))
        row.do(*(down[1:] + back) * (n - row.done["F", BACK]))
        row.do(*[("B", DOWN), ("B", BACK)] * r)
        row.do(*down[1:] * (p - r))
        for leg in (BACK, DOWN):
            row.do(*[("W", leg)] * (n - row.done["W", leg]))
        stages = r, 2 * p - 1 - r
        rows.append(row.actions(lambda leg, i, at=stages: (at[leg], i) if i < m else None))
    return PipelineSchedule(rows, m, 2 * p, name="ZB-V")


def dual_pipe_v(p: int, m: int) -> PipelineSchedule:
    """A V in which a forward pass of one leg and a backward pass of the other share the rank.

    Equation: see `_dual_row`. Arguments: ``p`` ranks, ``m`` micro-batches, at least 2p. Returns a
    `PipelineSchedule` of 2p stages. Raises ValueError otherwise.
    Source: DeepSeek-AI 2024; Qi et al. 2025 for the V.

    >>> dual_pipe_v(2, 4).rows[0][6:11]
    (3F1, 0F3&3BW1, 3F2&0BW0, 3BW2, 3F3&0BW1)
    """
    at_least_one(p=p, m=m)
    if m < 2 * p:
        raise ValueError(f"m must be at least 2 p, to fill the V; got m = {m}, p = {p}")
    rows = []
    for r in range(p):
        stages = r, 2 * p - 1 - r
        rows.append(_dual_row(p, m, r).actions(lambda leg, i, at=stages: (at[leg], i)))
    return PipelineSchedule(rows, m, 2 * p, name="DualPipeV")


def dual_pipe(p: int, m: int) -> PipelineSchedule:
    """Half of the micro-batches enter at each end; every rank holds two stages, one of each way.

    Equation: the rows of `dual_pipe_v` with half the ranks and micro-batches; where they go back,
    rank r does stage p-1-r for micro-batches that entered at the other end. The rows of the second
    half of the ranks are those of the first, mirrored.
    Arguments: ``p`` ranks, an even number; ``m`` micro-batches of both ways, even and at least 2p;
    the second half of them enters at the last rank. Returns a `PipelineSchedule` of p stages, of
    which every one stands on two ranks. Raises ValueError otherwise. Source: DeepSeek-AI 2024.

    >>> dual_pipe(2, 4).rows[0]
    (0F0, 1F2, 0F1, 1BW2, 1F3&0BW0, 1BW3, 0B1, 0W1)
    """
    at_least_one(p=p, m=m)
    for name, count in (("p", p), ("m", m)):
        if count % 2:
            raise ValueError(
                f"{name} must be even, because half of the micro-batches enter at each end; "
                f"got {name} = {count}"
            )
    if m < 2 * p:
        raise ValueError(f"m must be at least 2 p, to fill both ways; got m = {m}, p = {p}")
    rows = []
    for rank in range(p):
        other = p - 1 - rank
        row = _dual_row(p // 2, m // 2, min(rank, other))
        ways = [(rank, 0), (other, m // 2)][:: 1 if rank < other else -1]
        rows.append(row.actions(lambda leg, i, at=ways: (at[leg][0], at[leg][1] + i)))
    return PipelineSchedule(rows, m, name="DualPipe")


def _dual_row(p: int, m: int, r: int) -> _Row:
    """Rank r's row of DualPipe, on p ranks of a V, in the eight phases of its authors.

    2(p-r-1) times F down; r+1 times F down, F back; p-r-1 times B back, W back, F back; then in
    turn F down with BW back, and F back with BW down, while there are F down; p-r-1 times BW back,
    and F back with BW down; r+1 times a backward pass back and one down, the second half of them
    without W; p-r-1 times the oldest W, B down; and all W that are left. On the last rank of the V
    the first two that could share the rank do not, because each would wait for the other's.
    """
    row, above = _Row(), p - r - 1
    row.do(*[("F", DOWN)] * (2 * above))
    row.do(*[("F", DOWN), ("F", BACK)] * (r + 1))
    row.do(*[("B", BACK), ("W", BACK), ("F", BACK)] * above)
    for turn in range(m - 2 * p + r + 1):
        if turn == above == 0:
            row.do(("F", DOWN), ("BW", BACK))
        else:
            row.together(DOWN, BACK)
        row.together(BACK, DOWN)
    for _ in range(above):
        row.do(("BW", BACK))
        row.together(BACK, DOWN)
    backward = [BACK, DOWN] * (r + 1)
    row.do(*[("BW", leg) for leg in backward[: r + 1]])
    for leg in backward[r + 1 :]:
        row.put_off_weights(leg)
    for _ in range(above):
        row.catch_up()
        row.put_off_weights(DOWN)
    while row.put_off:
        row.catch_up()
    return row
