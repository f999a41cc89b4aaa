"""The laws of the lab 'Send less': each says what is wrong, and where."""

from collections.abc import Callable
from functools import cache
from typing import Any

from dtlib.efficiency import (
    Compressor,
    Dense,
    ErrorFeedback,
    Gathered,
    Levels,
    PowerSGD,
    SignSGD,
    TopK,
    WireMeter,
    together,
)
from dtlib.exercises.judge import call, function
from dtlib.exercises.labs.send_less.task import Lane, Link, race
from dtlib.exercises.verdict import NotYet
from dtlib.later import torch

LOSS, FACTOR, STEPS, RANKS = 0.6, 0.6, 240, 4
LINK = Link()


def given() -> Compressor:
    """What the lab hands out, and the reader is to beat: 8 bits for every number."""
    return Levels(bits=8, bucket=512)


def normal(seed: int, d: int):
    """Noise that no two ranks or steps share."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(d, generator=draw, dtype=torch.float64)


def _class(answer: Any, signature: str, base: type) -> Callable:
    function(answer, signature)
    if not (isinstance(answer, type) and issubclass(answer, base)):
        raise NotYet(f"write a class that derives from {base.__name__}, with {signature}")
    return lambda *args: call(answer, *args)


def _step(ranks: list, vectors: list, where: str, meter: WireMeter | None = None) -> list:
    """The means that all ranks have after a step of the reader's compressors."""
    programs = [c.program(x, (x.shape,)) for c, x in zip(ranks, vectors, strict=True)]
    try:
        found = together(programs, meter)
        return [sent.mean for sent in found]
    except NotImplementedError:
        raise NotYet("there is nothing here yet: NotImplementedError") from None
    except Exception as error:
        raise NotYet(f"{where}: {type(error).__name__}: {error}") from None


def largest_law(answer: Any) -> None:
    make = _class(answer, "Largest(share)", Gathered)
    for d, share, P in ((10, 0.2, 1), (1000, 0.01, 1), (70, 0.3, 3), (70_000, 0.001, 2)):
        where, vectors = f"{P} ranks, {share:.1%} of {d:,}", [normal(r, d) for r in range(P)]
        meter, due = WireMeter(P), _step([TopK(share) for _ in vectors], vectors, "")[0]
        found = _step([make(share) for _ in vectors], vectors, where, meter)[0]
        if not torch.allclose(found, due):
            raise NotYet(f"{where}: {_difference(found, due)}")
        kept = -(-d * round(share * 1000) // 1000)
        if meter.payload > kept * (8 + 4):
            raise NotYet(
                f"{where}: a message has {meter.payload:,} bytes for {kept} numbers of 8 bytes; "
                "a place needs 4 bytes, and zeros need not travel"
            )


def _difference(found, due) -> str:
    """In which way a mean is not that of the largest numbers."""
    if found.shape != due.shape:
        return f"the mean has shape {tuple(found.shape)}"
    if torch.allclose(found.abs(), due.abs()):
        return "sizes arrive, and signs do not"
    gone = int(((due != 0) & (found == 0)).sum())
    if gone and not ((due == 0) & (found != 0)).any():
        return f"{gone} of the largest numbers do not arrive"
    if gone:
        return f"{gone} numbers arrive elsewhere, or others instead of them: the largest in size"
    return "where several ranks have sent a number, their sum is due"


STEPS_OF_MEMORY = 12


def memory_law(answer: Any) -> None:
    make = _class(answer, "Remembering(compressor)", Compressor)
    cases = (("the largest", TopK(0.2)), ("signs", SignSGD()), ("rank 1", PowerSGD(rank=1)))
    for name, compressor in cases:
        ranks = [make(compressor.fresh()) for _ in range(2)]
        ours = [ErrorFeedback(compressor.fresh()) for _ in range(2)]
        for step in range(STEPS_OF_MEMORY):
            where, vectors = f"{name}, step {step}", _gradients(step)
            due, found = _step(ours, vectors, ""), _step(ranks, vectors, where)
            _judge_step(found, due, where, bad=step == 7, after=step > 7)


def _gradients(step: int) -> list:
    """Those of two ranks; those of step 7 hold a NaN."""
    vectors = [normal(10 * step + rank, 30) for rank in range(2)]
    if step == 7:
        vectors[1][3] = torch.nan
    return vectors


def _judge_step(found: list, due: list, where: str, bad: bool, after: bool) -> None:
    if not torch.equal(found[0].isnan(), found[1].isnan()) or not torch.allclose(
        found[0], found[1], equal_nan=True
    ):
        raise NotYet(f"{where}: the ranks end up with different means")
    if bad:
        return
    if found[0].isnan().any():
        raise NotYet(f"{where}: the NaN of step 7 is still remembered" if after else
                     f"{where}: the mean is NaN")  # fmt: skip
    if not torch.allclose(found[0], due[0], rtol=1e-9, atol=1e-12):
        raise NotYet(f"{where}: another mean than is due: what has this rank sent, and what owed?")


@cache
def given_lane() -> Lane:
    """The lane that is to be beaten."""
    return race(given(), steps=STEPS, until=lambda lane: lane.steps_to(LOSS) is not None)


@cache
def limit() -> float:
    """The seconds in which the reader is to be there."""
    return FACTOR * given_lane().seconds_to(LOSS, LINK)


def race_law(answer: Any) -> str:
    if not isinstance(answer, Compressor):
        raise NotYet(
            f"pass your compressor, an object whose class derives from Compressor, "
            f"got {type(answer).__name__}"
        )
    try:
        lane = race(answer, steps=STEPS, until=_over, P=RANKS)
    except (NotYet, NotImplementedError) as error:
        raise NotYet(f"there is nothing here yet: {type(error).__name__}") from None
    except Exception as error:
        raise NotYet(f"in the race {type(error).__name__}: {error}") from None
    _judge_lane(lane)
    return (
        f"{lane.bytes / len(lane.losses):,.0f} bytes a step, and there before "
        f"{FACTOR:.0%} of the time of the given one"
    )


def _over(lane: Lane) -> bool:
    """Whether a lane has arrived, or is late."""
    late = len(lane.losses) * lane.step_seconds(LINK) > limit()
    return late or lane.steps_to(LOSS) is not None


def _judge_lane(lane: Lane) -> None:
    if lane.seconds_to(LOSS, LINK) <= limit():
        return
    steps, dense = len(lane.losses), whole_lane()
    spent = lane.step_seconds(LINK) - lane.computing
    where = (
        f"{lane.bytes / steps:,.0f} bytes in {lane.messages / steps:.0f} messages a step; after "
        f"{FACTOR:.0%} of the given one's time the loss is {lane.mean(steps):.3f}"
    )
    behind = lane.mean(steps) - dense.mean(min(steps, len(dense.losses)))
    if not lane.bytes:
        raise NotYet("nothing was sent: then every rank learns from a mean that it does not have")
    if spent > lane.computing / 2:
        raise NotYet(f"{where}: most of its steps are not made yet, since the link is too slow")
    if behind > 0.01:
        raise NotYet(f"{where}: its steps are many, and worse than those of whole gradients")
    raise NotYet(f"{where}: close; both fewer bytes and better steps would help")


@cache
def whole_lane() -> Lane:
    """What whole gradients reach, step by step."""
    return race(Dense(), steps=STEPS)
