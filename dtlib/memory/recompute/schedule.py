"""Schedules of recomputation: which state of a chain is kept, and what is computed again, as data.

The nouns:

- **Chain**: layers 0 ... L-1. State i is the input of layer i; state L is the chain's output.
- **Slot**: it holds one state. A slot is all that a forward pass must leave.
- **Tape**: what autograd saves of one layer, so that its backward pass can run.
- **RecomputeAction**: one step of a schedule, which prints as a letter and the layers that it is
  about:

      K3    keep the running state, which is state 3, in a slot
      R3    make the kept state 3 the running state again
      D3    drop the kept state 3
      A3:7  advance: run layers 3 ... 6 and save nothing; the running state is then state 7
      T3:7  tape: run layers 3 ... 6 and save what autograd saves
      B3:7  backward through layers 6 ... 3, whose tapes are freed one by one

- **RecomputeSchedule**: actions. The forward pass ends when state L is first reached.

The builders and the check are here, `simulate_recompute` beside them; `recompute.py` runs the same
actions for real.
"""

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import NamedTuple

from dtlib.errors import DtlibError
from dtlib.formulas.require import require, require_count, require_type

_KINDS = "KRDATB"


class RecomputeError(DtlibError, ValueError):
    """A schedule that cannot run: names the action's number, the action, and what is wrong."""


class RecomputeAction(NamedTuple):
    """One step: its letter, and the layers from `start` up to `stop`, or a state, if both agree.

    >>> RecomputeAction.parse("A3:7"), str(RecomputeAction("K", 3, 3))
    (RecomputeAction(kind='A', start=3, stop=7), 'K3')
    """

    kind: str
    start: int
    stop: int

    @classmethod
    def parse(cls, text: str) -> "RecomputeAction":
        """The action that prints as `text`. Raises RecomputeError if there is none."""
        kind, (start, _, stop) = text[:1], text[1:].partition(":")
        whole = start.isdigit() and (stop.isdigit() if kind in "ATB" else not stop)
        if kind not in _KINDS or not whole:
            raise RecomputeError(f"{text!r} is no action; they look like K3, R3, D3, A3:7, T3:7")
        return cls(kind, int(start), int(stop or start))

    def __str__(self) -> str:
        return f"{self.kind}{self.start}" + (f":{self.stop}" if self.kind in "ATB" else "")


@dataclass(frozen=True)
class RecomputeSchedule:
    """The actions of one forward and backward pass through `layers` layers.

    >>> schedule = RecomputeSchedule("by hand", 2, "K0 A0:1 T1:2 B1:2 R0 T0:1 D0 B0:1")
    >>> check_recompute(schedule)
    >>> schedule.forward_actions, len(schedule.actions)
    (3, 8)
    """

    name: str
    layers: int
    actions: tuple[RecomputeAction, ...]

    def __post_init__(self):
        require_count(f"schedule {self.name!r}", layers=self.layers)
        actions = self.actions.split() if isinstance(self.actions, str) else self.actions
        parsed = tuple(
            RecomputeAction.parse(a) if isinstance(a, str) else RecomputeAction(*a) for a in actions
        )
        object.__setattr__(self, "actions", parsed)

    @property
    def forward_actions(self) -> int:
        """How many actions the forward pass has: those up to the first that reaches state L."""
        for number, action in enumerate(self.actions, 1):
            if action.kind in "AT" and action.stop == self.layers:
                return number
        return len(self.actions)

    def __str__(self) -> str:
        return " ".join(map(str, self.actions))


def check_recompute(schedule: RecomputeSchedule) -> None:
    """Raise unless a schedule runs each layer's backward pass once, last layer first, from a tape.

    Arguments: `schedule`. Returns nothing.
    Raises RecomputeError for an action whose running state, kept state or tape is not there, a
    backward pass out of turn, what is kept twice, and what is left over at the end.

    >>> check_recompute(RecomputeSchedule("forgetful", 2, "A0:1 T1:2 B1:2 R0 T0:1 B0:1"))
    Traceback (most recent call last):
    dtlib.memory.recompute.schedule.RecomputeError: forgetful: action 3, R0: state 0 is not kept;
    kept are none
    """
    require_type("check_recompute", RecomputeSchedule, schedule=schedule)
    running, kept, taped, left = 0, set(), set(), schedule.layers

    def demand(condition, what):
        if not condition:
            raise RecomputeError(f"{schedule.name}: action {number}, {action}: {what}")

    for number, action in enumerate(schedule.actions):  # noqa: B007 (demand reads it)
        kind, start, stop = action
        if kind in "ATB":
            demand(0 <= start < stop <= schedule.layers, f"layers are 0 ... {schedule.layers - 1}")
        if kind in "KAT":
            at = "none" if running is None else f"state {running}"
            demand(running == start, f"needs the running state {start}, but it is {at}")
        if kind in "RD":
            names = ", ".join(map(str, sorted(kept))) or "none"
            demand(start in kept, f"state {start} is not kept; kept are {names}")
        layers = set(range(start, stop))
        if kind == "K":
            demand(start not in kept, f"state {start} is kept already")
            kept.add(start)
        elif kind == "R":
            running = start
        elif kind == "D":
            kept.remove(start)
        elif kind == "B":
            demand(stop == left, f"the next backward pass is that of layer {left - 1}")
            missing = sorted(layers - taped)
            demand(not missing, f"no tape of layer {missing[-1] if missing else ''}")
            running, left, taped = None, start, taped - layers
        else:
            running = stop
            if kind == "T":
                demand(not layers & taped, f"layer {min(layers & taped, default='')} has a tape")
                taped |= layers
    if left or kept or taped:
        rest = [f"no backward pass of layers 0 ... {left - 1}"] * bool(left)
        rest += [f"kept states {sorted(kept)}"] * bool(kept)
        rest += [f"tapes of layers {sorted(taped)}"] * bool(taped)
        raise RecomputeError(f"{schedule.name}: at the end there are {' and '.join(rest)}")


def keep_all(layers: int) -> RecomputeSchedule:
    """Nothing is recomputed: all layers are taped, and then all of them run backward.

    >>> str(keep_all(8))
    'T0:8 B0:8'
    """
    return RecomputeSchedule("keep all", layers, f"T0:{layers} B0:{layers}")


def uniform(layers: int, segment: int, keep_last: bool = True) -> RecomputeSchedule:
    """The input of every `segment`-th layer is kept; a segment is run again before its backward.

    Segments end at L, L - k, L - 2k, ...; the first takes what is left over. With `keep_last` the
    last segment is taped at once; without it (a pipeline's stage, whose backward pass comes later)
    no tape outlives the forward pass. Extra forward passes of layers: L - k, or else L.
    Raises ValueError for a `segment` that is not from 1 to `layers`. Source: Chen et al. 2016.

    >>> str(uniform(4, 2))
    'K0 A0:2 T2:4 B2:4 R0 T0:2 D0 B0:2'
    """
    require_count("uniform", layers=layers, segment=segment)
    require(segment <= layers, "uniform", "segment", segment, f"at most layers, {layers}")
    stops = [*range(layers, 0, -segment)][::-1]
    parts = [(max(0, stop - segment), stop) for stop in stops]
    early = parts[:-1] if keep_last else parts
    actions = [text for start, stop in early for text in (f"K{start}", f"A{start}:{stop}")]
    if keep_last:
        start, stop = parts[-1]
        actions += [f"T{start}:{stop}", f"B{start}:{stop}"]
    for start, stop in reversed(early):
        actions += [f"R{start}", f"T{start}:{stop}", f"D{start}", f"B{start}:{stop}"]
    return RecomputeSchedule(f"every {segment} of {layers}", layers, actions)


def revolve(layers: int, slots: int) -> RecomputeSchedule:
    """The fewest extra forward passes with `slots` kept states, the input's included: Revolve.

    To come back from state j to state i, which is kept: advance to a state in between, keep it,
    come back from j to it with a slot less, drop it, and come back from it to i. One slot is left:
    advance from i to each layer anew. The place in between is where `revolve_advances` says that
    both parts cost least. One layer is taped at a time.
    Raises ValueError for counts below 1. Source: Griewank and Walther 2000.

    >>> str(revolve(3, 1))
    'K0 A0:2 T2:3 B2:3 R0 A0:1 T1:2 B1:2 R0 T0:1 D0 B0:1'
    """
    require_count("revolve", layers=layers, slots=slots)
    actions: list[str] = ["K0"]

    def come_back(start, stop, free):
        """Backward from `stop` to `start`: state `start` is kept and running."""
        while stop - start > 1:
            middle = start + _first_step(stop - start, free)
            actions.append(f"A{start}:{middle}")
            if free > 1:
                actions.append(f"K{middle}")
                come_back(middle, stop, free - 1)
            else:
                actions.extend((f"T{middle}:{stop}", f"B{middle}:{stop}"))
            actions.append(f"R{start}")
            stop = middle
        actions.extend((f"T{start}:{stop}", f"D{start}", f"B{start}:{stop}"))

    come_back(0, layers, slots)
    return RecomputeSchedule(
        f"Revolve, {slots} slot{'s' * (slots > 1)} for {layers}", layers, actions
    )


def _first_step(layers, slots):
    """How far to advance before the next state is kept (with one slot: to the last layer)."""
    if slots == 1:
        return layers - 1
    costs = {
        step: step + revolve_advances(step, slots) + revolve_advances(layers - step, slots - 1)
        for step in range(1, layers)
    }
    return min(costs, key=costs.get)


def revolve_reach(slots: int, repeats: int) -> int:
    """The longest chain of which no layer is advanced through more than `repeats` times.

    Equation: binomial(slots + repeats, slots). Raises ValueError for slots below 1 or repeats
    below 0. Source: Griewank and Walther 2000.

    >>> [revolve_reach(3, repeats) for repeats in range(5)]
    [1, 4, 10, 20, 35]
    """
    require_count("revolve_reach", slots=slots)
    require_count("revolve_reach", 0, repeats=repeats)
    return comb(slots + repeats, slots)


def revolve_advances(layers: int, slots: int) -> int:
    """The fewest layers that are run without a tape: the extra forward passes of Revolve.

    Equation: r L - binomial(s + r, s + 1), with r the least number of repeats whose reach is L.
    (Each layer runs once more, with a tape; a run that keeps everything does only that.)
    Arguments: `layers` L; `slots` s, the one of the input included. Returns a count.
    Raises ValueError for counts below 1. Source: Griewank and Walther 2000.

    >>> [revolve_advances(32, slots) for slots in (1, 2, 3, 5, 32)]
    [496, 140, 93, 68, 31]
    """
    require_count("revolve_advances", layers=layers, slots=slots)
    repeats = 0
    while comb(slots + repeats, slots) < layers:
        repeats += 1
    return repeats * layers - comb(slots + repeats, slots + 1)


@cache
def fewest_advances(layers: int, slots: int) -> int:
    """The fewest layers run without a tape, found by trying every next kept state.

    Equation: F(1, s) = 0; F(L, 1) = L (L - 1) / 2;
    F(L, s) = min over 0 < j < L of j + F(L - j, s - 1) + F(j, s).
    Source: Griewank and Walther 2000 (dynamic programming).

    >>> [fewest_advances(32, slots) for slots in (1, 2, 3, 5, 32)]
    [496, 140, 93, 68, 31]
    """
    if layers == 1:
        return 0
    if slots == 1:
        return layers * (layers - 1) // 2
    return min(
        step + fewest_advances(layers - step, slots - 1) + fewest_advances(step, slots)
        for step in range(1, layers)
    )
