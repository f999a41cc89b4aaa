r"""Layers that come from afar, one after the other: what look-ahead hides, and what it cannot.

The nouns:

- **Layer**: needs its bytes before it computes; where it changes them, they go back afterwards.
- **Lane**: moves one layer at a time, in the order of the requests. Fetches have one lane and
  returns another, or both share one.
- **Latency**: passes between the moment a layer has left its lane and the moment it is seen. The
  lane is free in the meantime.
- **Look-ahead** k: layers that are asked for before their turn. Layer i + k + 1 is asked for when
  layer i has been computed, so k = 0 fetches and computes in turns.
- **Buffer**: holds one layer, from the start of its fetch until it has been computed and returned.

In the long run a layer takes as long as the busiest of three: the arithmetic, the lane, or one turn
of a buffer, which serves every (k+1)-th layer. Look-ahead shortens the third and nothing else. So
it hides latency, and never bandwidth: without latency one layer of look-ahead is all it can do.

Times may be numbers of any kind. With whole numbers or fractions every result is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Number

from dtlib.formulas.require import require, require_count
from dtlib.timeline import Span, Timeline


@dataclass(frozen=True)
class OffloadRun:
    """When each layer was asked for, moved, seen, computed and returned.

    `began` and `left`: when its fetch entered and left the lane; `ready`: when it was seen; `start`
    and `stop` of its arithmetic; `returning` and `returned`, empty where nothing goes back.
    """

    asked: tuple
    began: tuple
    left: tuple
    ready: tuple
    start: tuple
    stop: tuple
    returning: tuple
    returned: tuple
    freed: tuple

    @property
    def makespan(self):
        """From the first request until the last layer is computed and returned."""
        return max(self.freed) - min(self.asked)

    @property
    def stalled(self):
        """Time in which the arithmetic waited, the wait for the first layer included."""
        return self.stop[-1] - sum(b - a for a, b in zip(self.start, self.stop, strict=True))

    def layer_time(self, last: int):
        """The mean time of one layer over the `last` ones, exact for whole numbers and fractions.

        Raises ValueError unless there are more layers than that.
        """
        allowed = f"1 to {len(self.stop) - 1} of the layers"
        good = isinstance(last, int) and 0 < last < len(self.stop)
        require(good, "layer_time", "last", last, allowed)
        took = self.stop[-1] - self.stop[-1 - last]
        return Fraction(took) / last if isinstance(took, int | Fraction) else took / last

    def timeline(self, unit: str = "s") -> Timeline:
        """A lane for each direction that was used and one for the arithmetic."""
        moves = [("link in", "communication", self.began, self.left)]
        if self.returned:
            moves.append(("link out", "communication", self.returning, self.freed))
        moves.append(("compute", "forward", self.start, self.stop))
        spans = [
            Span(0, lane, str(i), begin, end, kind)
            for lane, kind, begins, ends in moves
            for i, (begin, end) in enumerate(zip(begins, ends, strict=True))
        ]
        return Timeline(spans, unit, {"communication": "transfer", "forward": "compute"})


def simulate_offload(
    layers: int,
    compute,
    fetch,
    back=0,
    *,
    alpha=0,
    lookahead: int = 1,
    buffers: int | None = None,
    duplex: bool = True,
) -> OffloadRun:
    """Layers are fetched, computed and, where `back` is not 0, returned, with look-ahead.

    Equation: a fetch begins when it is asked for, its lane is free and a buffer is free; a layer is
    computed when it is seen and the layer before is done.
    Arguments: `layers`, their number; `compute`, `fetch` and `back`, the time of each, one number
    or one for each layer; `alpha`, the latency; `lookahead`, layers; `buffers`, by default
    look-ahead + 1, and one more where layers go back; `duplex`, whether returns have a lane too.
    Returns an OffloadRun. Raises ValueError for no layer, a negative time, and too few buffers.
    Source: the words above, one line each.

    >>> for depth in range(4):  # 5 s of arithmetic, 8 s of transfer: two layers ahead are no help
    ...     print(depth, simulate_offload(40, compute=5, fetch=8, lookahead=depth).layer_time(12))
    0 13
    1 8
    2 8
    3 8
    >>> for depth in range(4):  # 8 s of arithmetic, 5 s of transfer, 20 s of latency
    ...     run = simulate_offload(40, compute=8, fetch=5, alpha=20, lookahead=depth)
    ...     print(depth, run.layer_time(12))
    0 33
    1 33/2
    2 11
    3 33/4
    """
    require_count("simulate_offload", layers=layers)
    require_count("simulate_offload", 0, lookahead=lookahead)
    compute, fetch, back = (
        _each(name, times, layers)
        for name, times in (("compute", compute), ("fetch", fetch), ("back", back))
    )
    returns = any(back)
    buffers = lookahead + 1 + returns if buffers is None else buffers
    require(_is_time(alpha), "simulate_offload", "alpha", alpha, _TIME)
    allowed = f"at least {lookahead + 1}: the layer that is computed, and one for each ahead"
    good = isinstance(buffers, int) and buffers > lookahead
    require(good, "simulate_offload", "buffers", buffers, allowed)
    times = {name: [0] * layers for name in OffloadRun.__dataclass_fields__}
    asked, began, left, ready, start, stop, returning, returned, freed = times.values()
    free = {"in": 0, "out": 0}
    out = "out" if duplex else "in"

    def ask(j: int, now) -> None:
        asked[j] = now
        room = returned[j - buffers] if j >= buffers else 0
        began[j] = max(now, free["in"], room)
        left[j] = free["in"] = began[j] + fetch[j]
        ready[j] = left[j] + alpha

    for j in range(min(lookahead + 1, layers)):
        ask(j, 0)
    for i in range(layers):
        start[i] = max(stop[i - 1] if i else 0, ready[i])
        stop[i] = returned[i] = freed[i] = start[i] + compute[i]
        if returns:
            returning[i] = max(stop[i], free[out])
            freed[i] = free[out] = returning[i] + back[i]
            returned[i] = freed[i] + alpha
        if i + lookahead + 1 < layers:
            ask(i + lookahead + 1, stop[i])
    if not returns:
        times["returning"] = times["returned"] = ()
    return OffloadRun(**{name: tuple(values) for name, values in times.items()})


def _each(name: str, times, layers: int) -> list:
    times = list(times) if isinstance(times, Sequence) else [times] * layers
    if len(times) != layers:
        raise ValueError(f"{name} has {len(times)} times for {layers} layers")
    for time in times:
        require(_is_time(time), "simulate_offload", name, time, _TIME)
    return times


_TIME = "a time of at least 0"


def _is_time(value) -> bool:
    return isinstance(value, Number) and value >= 0
