"""ZeroStages: one training step in ZeRO's stages, action by action, on every rank."""

import html
from collections.abc import Sequence
from itertools import product

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity
from dtlib.memory.zero.steps import NONE, OWN, PART, PART_AND_OWN, STALE, SUM, WHOLE, ZeroStep

STAGES = ("data parallelism", "stage 1", "stage 2", "stage 3")
MOST_RANKS, MOST_UNITS, MOST_MICRO_BATCHES = 8, 4, 4
_WEIGHTS = {PART: "p", WHOLE: "w", STALE: "s"}
_GRADIENTS = {NONE: "n", OWN: "o", SUM: "s", PART: "p", PART_AND_OWN: "b"}


class ZeroStages(Widget):
    """One step of data parallelism and of ZeRO's stages: what each rank holds, what it sends.

    Every stage is a `ZeroStep`, exported moment by moment. Arguments: `units`, the parameters of
    each unit of the model; `ranks` and `micro_batches`, what the reader may choose, the first of
    each at the start; `stage` and `done`, the stage and the number of actions done at first;
    `element_bytes`, `optimizer_bytes` and `prefetch`, as for `ZeroStep`; `task`, a `Task` over
    ``stage``, ``ranks``, ``micro_batches``, ``done``, ``peak`` and ``total`` (bytes that a rank
    holds at most, and sends in the step), ``held_share`` and ``sent_share`` (those over data
    parallelism's), whose solution gives some of the first four.
    Raises ValueError for too many of anything, and for a task that cannot be met.
    """

    _esm = script("quantities.js", "page.js", "zero_stages_model.js", "zero_stages.js")
    _css = script("widget.css", "zero_stages.css")

    def __init__(
        self,
        units: Sequence[float] = (1e9, 1e9, 1e9),
        *,
        ranks: Sequence[int] = (4, 2, 8),
        micro_batches: Sequence[int] = (1, 2, 4),
        stage: int = 3,
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
        if stage not in range(4):
            raise ValueError(f"stage = {stage!r}; allowed are 0, 1, 2 and 3")
        kept = {"element_bytes": element_bytes, "optimizer_bytes": optimizer_bytes}
        self._steps = {
            (z, P, m): ZeroStep(z, P, tuple(units), m, prefetch, **kept)
            for z, P, m in product(range(4), ranks, micro_batches)
        }
        self._start = {"stage": stage, "ranks": ranks[0], "micro_batches": micro_batches[0]}
        actions = len(self._at(**self._start).actions)
        if not 0 <= done <= actions:
            raise ValueError(f"done = {done}; this step has {actions} actions")
        sliders = [
            slider_over(name, name.replace("_", "-"), "", sorted(chosen), chosen[0])
            for name, chosen in (("ranks", ranks), ("micro_batches", micro_batches))
        ]
        spec = {
            "title": title,
            "stages": list(STAGES),
            "units": [float(n) for n in units],
            "parts": [element_bytes, element_bytes, optimizer_bytes],
            "start": self._start | {"done": done},
            "sliders": sliders,
            "runs": {
                f"{z} {m}": _run(self._steps[z, ranks[0], m])
                for z, m in product(range(4), micro_batches)
            },
            "bytes": {f"{z} {P} {m}": _bytes(step) for (z, P, m), step in self._steps.items()},
            "task": None if task is None else self._task(task, done),
        }
        super().__init__(spec=spec)

    def values(self, **state) -> dict[str, float]:
        """The names of a task for a stage, ranks, micro-batches, and actions done."""
        state = self._start | {"done": 0} | state
        done = state.pop("done")
        step, plain = self._at(**state), self._at(**state | {"stage": 0})
        return state | {
            "done": done,
            "peak": step.peak_bytes,
            "total": step.sent,
            "held_share": step.peak_bytes / plain.peak_bytes,
            "sent_share": step.sent / plain.sent if plain.sent else 1.0,
        }

    def _at(self, stage, ranks, micro_batches) -> ZeroStep:
        return self._steps[stage, ranks, micro_batches]

    def _task(self, task: Task, done: int) -> dict:
        def names(**state):
            return self.values(**{"done": done} | state)

        return task.checked(names) | {"names": list(names())}

    def _figure(self) -> str:
        from dtlib.style import (
            BACKWARD,
            COMMUNICATION,
            FORWARD,
            FOURTH,
            figure,
            inline_svg,
            label_curve,
            quantity_axis,
        )  # fmt: skip

        fig, ax = figure(height=2.9)
        state, said = dict(self._start), []
        colors = (COMMUNICATION, FORWARD, FOURTH, BACKWARD)
        for stage, (name, color) in enumerate(zip(STAGES, colors, strict=True)):
            step = self._at(**state | {"stage": stage})
            last = len(step.moments) - 1
            done = [i / last for i in range(last + 1)]
            held = [moment.held for moment in step.moments]
            ax.step(done, held, where="post", color=color)
            label_curve(ax, 1, held[-1], name, color)
            peak, sent = (format_quantity(n, "B", 3) for n in (step.peak_bytes, step.sent))
            said.append(f"{name}: at most {peak} held, {sent} sent")
        ax.set_xlabel("share of the step's actions")
        ax.set_ylim(0)
        quantity_axis(ax.yaxis, "B", "held by a rank")
        text = f"{state['ranks']} ranks. " + "; ".join(said)
        caption = f"{as_sentence(self.spec['title'])} {html.escape(text)}."
        return inline_svg(fig, alt=text) + f"\n<figcaption>{caption}</figcaption>"


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
