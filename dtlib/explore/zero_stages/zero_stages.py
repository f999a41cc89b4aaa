"""ZeroStages: one training step in ZeRO's stages, action by action, on every rank."""

from collections.abc import Sequence
from itertools import product

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.memory.zero.steps import NONE, OWN, PART, PART_AND_OWN, STALE, SUM, WHOLE, ZeroStep

STAGES = ("data parallelism", "stage 1", "stage 2", "stage 3")
MOST_RANKS, MOST_UNITS, MOST_MICRO_BATCHES = 8, 4, 4
_WEIGHTS = {PART: "p", WHOLE: "w", STALE: "s"}
_GRADIENTS = {NONE: "n", OWN: "o", SUM: "s", PART: "p", PART_AND_OWN: "b"}


class ZeroStages(Widget):
    """One step of data parallelism and of ZeRO's stages: what each rank holds, what it sends.

    Every stage is a `ZeroStep`, exported moment by moment. Arguments: `units`, the parameters of
    each unit of the model; `ranks` and `micro_batches`, what the reader may choose, the first of
    each at the start; `zero` and `done`, the stage and the number of actions done at first;
    `element_bytes`, `optimizer_bytes` and `prefetch`, as for `ZeroStep`; `task`, a `Task` over
    ``zero``, ``ranks``, ``micro_batches``, ``peak`` and ``total`` (bytes that a rank holds at
    most, and sends in the step), ``held_share`` and ``sent_share`` (those over data parallelism's),
    whose solution gives some of the first three.
    Raises ValueError for too many of anything, and for a task that cannot be met.
    """

    def __init__(
        self,
        units: Sequence[float] = (1e9, 1e9, 1e9),
        *,
        ranks: Sequence[int] = (4, 2, 8),
        micro_batches: Sequence[int] = (1, 2, 4),
        zero: int = 3,
        done: int = 14,
        element_bytes: float = 2,
        optimizer_bytes: float = 12,
        prefetch: int = 0,
        title: str = "One training step: what a rank holds, and what it sends",
        task: Task | None = None,
    ):
        for name, found, most in (
            ("ranks", max(ranks), MOST_RANKS),
            ("units", len(units), MOST_UNITS),
            ("micro_batches", max(micro_batches), MOST_MICRO_BATCHES),
        ):
            if found > most:
                raise ValueError(f"{name}: {found}; the figure has room for {most}")
        kept = {"element_bytes": element_bytes, "optimizer_bytes": optimizer_bytes}
        self._steps = {
            (z, P, m): ZeroStep(z, P, tuple(units), m, prefetch, **kept)
            for z, P, m in product(range(4), ranks, micro_batches)
        }
        choices = [
            choice("zero", "Stage", dict(enumerate(STAGES)), zero),
            slider("ranks", "ranks", sorted(ranks), ranks[0]),
            slider("micro_batches", "micro-batches", sorted(micro_batches), micro_batches[0]),
        ]
        actions = len(self._steps[zero, ranks[0], micro_batches[0]].actions)
        if not 0 <= done <= actions:
            raise ValueError(f"done = {done}; this step has {actions} actions")
        super().__init__(
            title=title,
            controls=choices,
            task=task,
            start={"done": done},
            units=[float(n) for n in units],
            parts=[element_bytes, element_bytes, optimizer_bytes],
            runs={
                f"{z} {m}": _run(self._steps[z, ranks[0], m])
                for z, m in product(range(4), micro_batches)
            },
            bytes={f"{z} {P} {m}": _bytes(step) for (z, P, m), step in self._steps.items()},
        )

    def names(self, *, zero: int, ranks: int, micro_batches: int) -> dict[str, float]:
        step, plain = (self._steps[z, ranks, micro_batches] for z in (zero, 0))
        return {
            "peak": step.peak_bytes,
            "total": step.sent,
            "held_share": step.peak_bytes / plain.peak_bytes,
            "sent_share": step.sent / plain.sent if plain.sent else 1.0,
        }


def _run(step: ZeroStep) -> dict:
    """Actions, and letters for what is held of each unit; the same for any number of ranks."""
    return {
        "actions": [[*action] for action in step.actions],
        "weights": ["".join(_WEIGHTS[w] for w in moment.weights) for moment in step.moments],
        "gradients": ["".join(_GRADIENTS[g] for g in m.gradients) for m in step.moments],
    }


def _bytes(step: ZeroStep) -> dict:
    return {
        "held": [float(moment.held) for moment in step.moments],
        "sent": [float(moment.sent) for moment in step.moments],
    }
