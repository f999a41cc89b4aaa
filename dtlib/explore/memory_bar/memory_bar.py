"""MemoryBar: what a rank must hold, term by term, against the memory of its GPU."""

from collections.abc import Sequence

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import among, choice, slider, toggle
from dtlib.explore.kit.lines import sheet_lines, sheet_names
from dtlib.explore.kit.setting import check_size
from dtlib.explore.kit.widget import Widget
from dtlib.explore.mathml import mathml
from dtlib.explore.memory_bar.counts import (
    ALLOCATOR,
    CONSTANTS,
    POLICIES,
    SHORTEST,
    WAYS,
    every_line,
    model_counts,
    recipe_counts,
)
from dtlib.formulas.notation import NOTATION
from dtlib.layout import Layout, even_stages
from dtlib.machines.hardware import catalog
from dtlib.memory.account.rank import MemoryAccount, rank_memory
from dtlib.memory.account.state import recipes
from dtlib.models.published import published_models
from dtlib.models.spec import TransformerSpec

MODELS = {
    "mistral-7b": "Mistral 7B",
    "llama-3.1-8b": "Llama 3.1 8B",
    "llama-3.1-70b": "Llama 3.1 70B",
    "llama-3.1-405b": "Llama 3.1 405B",
    "mixtral-8x7b": "Mixtral 8x7B",
    "mixtral-8x22b": "Mixtral 8x22B",
    "deepseek-v3": "DeepSeek-V3",
}
GPUS = {"h100-sxm": "H100", "a100-sxm": "A100", "h200-sxm": "H200", "b200-sxm": "B200"}
RECIPES = {
    "mixed": "mixed, 16-bit gradients",
    "32-bit sums": "mixed, 32-bit gradients",
    "passing": "mixed, 32- and 16-bit gradients",
    "16-bit sums": "mixed, 16-bit sums, 32-bit copy",
    "32-bit": "all in 32 bits",
    "momentum": "mixed, one moment",
    "sgd": "mixed, no moments",
    "8-bit Adam": "mixed, 8-bit moments",
}
SLIDERS = {
    "zero": ("ZeRO stage", [0, 1, 2, 3], "zero"),
    "dp": ("replicas", WAYS[:11], "dp"),
    "tp": ("tensor-parallel ranks", WAYS[:5], "tp"),
    "pp": ("pipeline stages", WAYS[:5], "p"),
    "cp": ("context-parallel ranks", WAYS[:5], "cp"),
    "ep": ("expert-parallel ranks", WAYS[:7], "ep"),
    "seq": ("tokens in a sequence", [SHORTEST * way for way in WAYS[:8]], "seq"),
    "micro_batch": ("sequences at a time", WAYS[:5], "micro_batch"),
    "micro_batches": ("micro-batches of a step", WAYS[:8], "m"),
}
SWITCHES = {
    "sequence_parallel": "sequence parallelism with tensor parallelism",
    "flash": "fused attention, which keeps no scores",
    "reserve": "count the allocator's reserve",
}
CONTROLS = ("model", "gpu", "recipe", "recompute", *SLIDERS, *SWITCHES)
_SIZES = [name for name in SLIDERS if name not in ("seq", "micro_batches")]
_START = Layout(sequence_parallel=True)
MOST_CONTROLS = 4
TASK = Task(
    "Make the step fit on at most four GPUs, recomputing nothing and without ZeRO stage 3.",
    "fullest <= hbm and ranks <= 4 and recompute == 0 and zero < 3 and model == 0 "
    "and seq >= 8192 and gpu == 0 and recipe == 0 and reserve == 1",
    {"tp": 4},
    "Replicas divide the model state alone; ranks of one layer divide its activations too.",
)


class MemoryBar(Widget):
    """One bar for each stage of a pipeline, a segment for each term, against the GPU's memory.

    Every number is `rank_memory`'s; the page computes it from the same formulas.
    Arguments: `model`, a name of `published_models` or a `TransformerSpec`; `layout` of the start,
    and `changes` of its fields by name (`tp=8`); its stages are as equal as can be, and sequence
    parallelism counts from 2 tensor-parallel ranks on; `gpu`, a name of the catalog; `recipe`,
    `seq` and `micro_batches` as for `rank_memory`; `reserve`, whether the allocator's fitted
    reserve counts; `place`, the stage of the pipeline that is shown in detail; `controls`, up to
    four names of CONTROLS; `more`, further names, which are folded below, because the equation
    has that many inputs (all, or none with ()); `models`, what the reader may choose from;
    `title`; `task`, a `Task` over CONTROLS (a choice counts from 0, a switch is 0 or 1), ``ranks``
    (all GPUs), ``memory`` of the rank that is shown, ``fullest`` of all stages and ``hbm``; None
    for no task, and left out TASK, where it can be set from this start.
    Raises ValueError for a name that is not known, a value that a control has not, a layout that
    `rank_memory` refuses, and a task that is met at the start or not met by its solution.
    """

    def __init__(
        self,
        model: str | TransformerSpec = "mistral-7b",
        layout: Layout = _START,
        *,
        gpu: str = "h100-sxm",
        recipe: str = "mixed",
        place: int = 0,
        seq: int = 8192,
        micro_batches: int = 16,
        reserve: bool = True,
        controls: Sequence[str] = ("model", "zero", "dp", "tp"),
        more: Sequence[str] = CONTROLS,
        models: Sequence[str] = tuple(MODELS),
        title: str = "What one GPU must hold",
        task: Task | str | None = "own",
        **changes,
    ):
        layout = layout | changes
        layout.require_plain("MemoryBar", "interleave", "stages", "offload")
        specs = [published_models[name] for name in models]
        chosen = published_models[model] if isinstance(model, str) else model
        self._specs = specs if chosen in specs else [chosen, *specs]
        self._gpus = [catalog[name] for name in GPUS]
        self._recipes = [recipes[name] for name in RECIPES]
        self._start = {
            "model": self._specs.index(chosen),
            "gpu": _index("gpu", gpu, GPUS),
            "recipe": _index("recipe", recipe, RECIPES),
            **_of_layout(layout),
            "seq": seq,
            "micro_batches": micro_batches,
            "reserve": int(reserve),
        }
        self._place = place
        self.account(place)
        check_size("controls", controls, MOST_CONTROLS)
        for name in (*controls, *more):
            among("controls", name, CONTROLS)
        folded = [name for name in CONTROLS if name in set(more) - set(controls)]
        super().__init__(
            title=title,
            controls=[*map(self._control, controls)]
            + [self._control(name) | {"folded": True} for name in folded],
            task=self._own_task() if task == "own" else task,
            setting=self._start,
            start={"place": place},
            **self._facts(all_models="model" in (*controls, *more)),
        )

    def account(self, place: int = 0, **changes: int) -> MemoryAccount:
        """The account of a rank, with other values of some controls (a choice counts from 0)."""
        at = self._start | changes
        spec = self._specs[at["model"]]
        policy, segment = [*POLICIES][at["recompute"]]
        sizes = {name: at[name] for name in _SIZES} | ({} if spec.moe else {"ep": 1})
        layout = Layout(
            **sizes, stages=even_stages(spec.layers, at["pp"]), recompute=policy, segment=segment,
            flash=bool(at["flash"]), sequence_parallel=bool(at["sequence_parallel"]),
        )  # fmt: skip
        return rank_memory(
            spec, layout, place=place, seq=at["seq"], micro_batches=at["micro_batches"],
            recipe=self._recipes[at["recipe"]], gpu=self._gpus[at["gpu"]],
            allocator=ALLOCATOR if at["reserve"] else None,
        )  # fmt: skip

    def names(self, **state) -> dict[str, float]:
        at = self._start | state
        held = [self.account(place, **state)["memory"] for place in range(at["pp"])]
        ranks = at["dp"] * at["tp"] * at["pp"] * at["cp"]
        memory, hbm = held[min(self._place, at["pp"] - 1)], self._gpus[at["gpu"]].hbm_bytes
        return at | {"ranks": ranks, "memory": memory, "fullest": max(held), "hbm": hbm}

    def _facts(self, all_models: bool) -> dict:
        """What the page counts with."""
        start, sheet = self._start["model"], every_line()
        return {
            "models": {
                str(i): {"label": _label(spec)} | model_counts(spec)
                for i, spec in enumerate(self._specs)
                if all_models or i == start
            },
            "gpus": [{"label": GPUS[gpu.name], "hbm": gpu.hbm_bytes} for gpu in self._gpus],
            "recipes": [recipe_counts(recipe) for recipe in self._recipes],
            "policies": [{"key": policy, "segment": segment} for policy, segment in POLICIES],
            "constants": CONSTANTS,
            "lines": sheet_lines(sheet, sheet.label),
            "known": sheet_names(sheet, sheet.label),
        }

    def _own_task(self) -> Task | None:
        """The task of the first bar, unless it cannot be set from here."""
        from_here = not TASK.holds(self.names()) and TASK.holds(self.names(**TASK.solution))
        return TASK if from_here else None

    def _control(self, name: str) -> dict:
        start = self._start[name]
        if name in SWITCHES:
            return toggle(name, SWITCHES[name], start)
        if name in SLIDERS:
            label, values, symbol = SLIDERS[name]
            return slider(name, label, values, start) | {"symbol": mathml(NOTATION[symbol].latex)}
        label, words = {
            "model": ("model", map(_label, self._specs)),
            "gpu": ("GPU", (f"{GPUS[g.name]}, {g.hbm_bytes / 2**30:.0f} GiB" for g in self._gpus)),
            "recipe": ("recipe, and bytes per parameter",
                       (f"{RECIPES[r.name]}: {r.total:g} B" for r in self._recipes)),
            "recompute": ("recomputed in the backward pass", POLICIES.values()),
        }[name]  # fmt: skip
        return choice(name, label, dict(enumerate(words)), start)


def _of_layout(layout: Layout) -> dict[str, int]:
    """The values of the controls that a layout decides."""
    policy = _index("recompute", (layout.recompute, layout.segment), POLICIES)
    switches = {name: int(getattr(layout, name)) for name in ("sequence_parallel", "flash")}
    return {name: getattr(layout, name) for name in _SIZES} | switches | {"recompute": policy}


def _label(spec: TransformerSpec) -> str:
    return MODELS.get(spec.name, spec.name)


def _index(argument: str, value, allowed) -> int:
    among(argument, value, list(allowed))
    return list(allowed).index(value)
