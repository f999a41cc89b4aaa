"""MemoryBar: what a rank must hold, term by term, against the memory of its GPU."""

import html
from collections.abc import Sequence

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.mathml import mathml
from dtlib.explore.widget import Widget, script
from dtlib.explore.worksheet import line_equation
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.units import readable
from dtlib.layout import Layout, even_stages
from dtlib.machines.hardware import catalog
from dtlib.memory.account.allocator import AllocatorModel
from dtlib.memory.account.layers import repeated_token_bytes, token_bytes
from dtlib.memory.account.rank import MemoryAccount, rank_memory
from dtlib.memory.account.state import StateRecipe, parameter_groups, recipes
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
RECOMPUTE = {
    "none": ("nothing", "none", 1),
    "selective": ("the attention core", "selective", 1),
    "full": ("all but each layer's input", "full", 1),
    "every 4th": ("all but every fourth layer's input", "full", 4),
}
_WAYS = [2**k for k in range(15)]
SLIDERS = {
    "zero": ("ZeRO stage", [0, 1, 2, 3]),
    "dp": ("replicas", _WAYS[:11]),
    "tp": ("tensor-parallel ranks", _WAYS[:5]),
    "pp": ("pipeline stages", _WAYS[:5]),
    "cp": ("context-parallel ranks", _WAYS[:5]),
    "ep": ("expert-parallel ranks", _WAYS[:7]),
    "seq": ("tokens in a sequence", [2**k for k in range(10, 18)]),
    "micro_batch": ("sequences at a time", _WAYS[:5]),
    "micro_batches": ("micro-batches of a step", _WAYS[:8]),
}
_SYMBOLS = {"zero": "stage", "pp": "p", "micro_batches": "m"}
CHOICES = ("model", "gpu", "recipe", "recompute")
SWITCHES = {
    "sequence_parallel": "sequence parallelism with tensor parallelism",
    "flash": "fused attention, which keeps no scores",
    "reserve": "count the allocator's reserve",
}
CONTROLS = (*CHOICES, *SLIDERS, *SWITCHES)
_SIZES = [name for name in SLIDERS if name not in ("seq", "micro_batches")]
_START = Layout(sequence_parallel=True)
MOST_CONTROLS = 4
_RESULTS = ("ranks", "memory", "fullest", "hbm")
TASKS = {
    "mistral-7b": Task(
        "make the step fit on at most four GPUs, recomputing nothing and without ZeRO stage 3.",
        "fullest <= hbm and ranks <= 4 and recompute == 0 and zero < 3 and model == 0 "
        "and seq >= 8192 and gpu == 0 and recipe == 0 and reserve == 1",
        {"tp": 4},
        "Replicas divide the model state alone; ranks of one layer divide its activations too.",
    ),
    "llama-3.1-70b": Task(
        "make the step fit on exactly 64 GPUs, with at most 8 tensor-parallel ranks, no ZeRO "
        "stage above 1, and recomputing nothing.",
        "fullest <= hbm and ranks == 64 and tp <= 8 and recompute == 0 and zero < 2 "
        "and model == 2 and seq >= 8192 and gpu == 0 and recipe == 0 and reserve == 1",
        {"tp": 8, "pp": 4, "dp": 2, "zero": 1},
        "No rank sends more than its gradients' sum and what its layers and stages exchange.",
    ),
}


class MemoryBar(Widget):
    """One bar for each stage of a pipeline, a segment for each term, against the GPU's memory.

    Every number is `rank_memory`'s; the page computes it from the same formulas.
    Arguments: `model`, a name of `published_models` or a `TransformerSpec`; `layout` of the start,
    and `changes` of its fields by name (`tp=8`); its stages are as equal as can be, and sequence
    parallelism counts from 2 tensor-parallel ranks on; `gpu`, a name of the catalog; `recipe`,
    `seq` and `micro_batches` as for `rank_memory`; `reserve`, whether the allocator's fitted
    reserve counts; `place`, the stage of the pipeline that is shown in detail; `controls`, up to
    four names of CONTROLS that come first; `more`, further names, which open below (all, or none
    with ()); `models`, what the reader may choose from; `title`; `task`, a `Task` over CONTROLS (a
    choice counts from 0, a switch is 0 or 1), ``ranks`` (all GPUs), ``memory`` of the rank that is
    shown, ``fullest`` of all stages and ``hbm``; None for no task, and left out the model's own of
    TASKS, where it can be set from this start.
    Raises ValueError for a name that is not known, a value that a control has not, a layout that
    `rank_memory` refuses, and a task that is met at the start or not met by its solution.
    """

    _esm = script("quantities.js", "page.js", "sheet.js", "memory_bar_model.js", "memory_bar.js")
    _css = script("widget.css", "plot.css", "worksheet.css", "memory_bar.css")

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
        policy = layout.recompute, layout.segment
        specs = [published_models[name] for name in models]
        chosen = published_models[model] if isinstance(model, str) else model
        self._specs = specs if chosen in specs else [chosen, *specs]
        self._gpus = [catalog[name] for name in GPUS]
        self._recipes = [recipes[name] for name in RECIPES]
        start = {
            "model": self._specs.index(chosen),
            "gpu": _index("gpu", gpu, list(GPUS)),
            "recipe": _index("recipe", recipe, list(RECIPES)),
            "recompute": _index("recompute", policy, [row[1:] for row in RECOMPUTE.values()]),
            **{name: getattr(layout, name) for name in _SIZES},
            "seq": seq,
            "micro_batches": micro_batches,
            "sequence_parallel": int(layout.sequence_parallel),
            "flash": int(layout.flash),
            "reserve": int(reserve),
        }
        for name, (_, values) in SLIDERS.items():
            _index(name, start[name], values)
        self._start, self._place = start, place
        self.account(place)
        super().__init__(spec=self._spec(title, controls, more, task))

    def account(self, place: int = 0, **changes: int) -> MemoryAccount:
        """The account of a rank, with other values of some controls (a choice counts from 0)."""
        at = self._start | changes
        spec = self._specs[at["model"]]
        _, policy, segment = [*RECOMPUTE.values()][at["recompute"]]
        sizes = {name: at[name] for name in _SIZES} | ({} if spec.moe else {"ep": 1})
        layout = Layout(
            **sizes, stages=even_stages(spec.layers, at["pp"]), recompute=policy, segment=segment,
            flash=bool(at["flash"]), sequence_parallel=bool(at["sequence_parallel"]),
        )  # fmt: skip
        return rank_memory(
            spec, layout, place=place, seq=at["seq"], micro_batches=at["micro_batches"],
            recipe=self._recipes[at["recipe"]], gpu=self._gpus[at["gpu"]],
            allocator=AllocatorModel() if at["reserve"] else None,
        )  # fmt: skip

    def values(self, **changes: int) -> dict[str, float]:
        """The names of a task, with other values of some controls."""
        at = self._start | changes
        held = [self.account(place, **changes)["memory"] for place in range(at["pp"])]
        ranks = at["dp"] * at["tp"] * at["pp"] * at["cp"]
        memory, hbm = held[min(self._place, at["pp"] - 1)], self._gpus[at["gpu"]].hbm_bytes
        return at | {"ranks": ranks, "memory": memory, "fullest": max(held), "hbm": hbm}

    def _spec(self, title: str, controls, more, task) -> dict:
        for name in (*controls, *more):
            _index("controls", name, CONTROLS)
        if len(controls) > MOST_CONTROLS:
            raise ValueError(f"controls: at most {MOST_CONTROLS} come first; got {len(controls)}")
        template = _every_line()
        return {
            "title": title,
            "start": self._start,
            "place": self._place,
            "first": [self._control(name) for name in controls],
            "more": [self._control(name) for name in CONTROLS if name in set(more) - set(controls)],
            "models": [_model(spec) for spec in self._specs],
            "gpus": [{"label": GPUS[gpu.name], "hbm": gpu.hbm_bytes} for gpu in self._gpus],
            "recipes": [{part: getattr(r, part) for part in _PARTS} for r in self._recipes],
            "policies": [{"key": p, "segment": k} for _, p, k in RECOMPUTE.values()],
            "widths": {"logit": 10, "ahead": AllocatorModel().ahead_bytes},
            "reserveShare": AllocatorModel().reserve_share,
            "lines": _lines(template),
            "given": {
                name: {"label": template.label(name), "unit": entry.unit}
                for name, entry in template.given.items()
            },
            "names": [*CONTROLS, *_RESULTS],
            "task": self._task(task),
        }

    def _task(self, task: Task | str | None) -> dict | None:
        if task != "own":
            return task.checked(self.values) if task else None
        own = TASKS.get(self._specs[self._start["model"]].name)
        try:
            return own.checked(self.values) if own else None
        except ValueError:  # it was set for another start
            return None

    def _control(self, name: str) -> dict:
        start = self._start[name]
        if name in SWITCHES:
            return {"kind": "switch", "name": name, "label": SWITCHES[name]}
        if name in SLIDERS:
            label, values = SLIDERS[name]
            facts = slider_over(name, label, "", values, start)
            letter = mathml(NOTATION[_SYMBOLS.get(name, name)].latex) if _known(name) else ""
            return facts | {"kind": "slider", "symbol": letter}
        options = {
            "model": [_label(spec) for spec in self._specs],
            "gpu": [f"{GPUS[gpu.name]}, {gpu.hbm_bytes / 2**30:.0f} GiB" for gpu in self._gpus],
            "recipe": [f"{RECIPES[r.name]}: {r.total:g} B" for r in self._recipes],
            "recompute": [label for label, _, _ in RECOMPUTE.values()],
        }
        labels = {
            "recompute": "recomputed in the backward pass",
            "recipe": "recipe, and bytes per parameter",
            "gpu": "GPU",
        }
        label = labels.get(name, name)
        return {"kind": "choice", "name": name, "label": label, "options": options[name]}

    def _figure(self) -> str:
        account = self.account(self._place)
        rows = "\n".join(
            f"<tr><th scope='row'>{html.escape(account.label(name))}</th>"
            f"<td class='dt-figure-value'>{readable(value, 'B')}</td>"
            f"<td><math>{mathml(account.lines[name].formula.symbol)}</math></td></tr>"
            for name, value in account.terms().items()
        )
        asked, memory, hbm = account.asked, account["memory"], account["hbm"]
        verdict = "which fits into" if memory <= hbm else "more than"
        text = f"{_label(asked.spec)}: {readable(memory, 'B')} on a rank, {verdict} "
        text += f"the {readable(hbm, 'B')} of one {GPUS[asked.gpu.name]}."
        return (
            f"{self._drawing(text)}\n"
            f'<table class="dt-sheet-table">\n<tbody>\n{rows}\n</tbody></table>\n'
            f"<figcaption>{html.escape(as_sentence(self.spec['title']))} {html.escape(text)}"
            "</figcaption>"
        )

    def _drawing(self, text: str) -> str:
        """Bars of all stages as a picture, with the line that they must not cross."""
        from dtlib import style

        stages = [self.account(place) for place in range(self._start["pp"])]
        fig, ax = style.figure(height=0.9 + 0.32 * len(stages))
        for place, account in enumerate(stages):
            left = 0.0
            for name, value in account.terms().items():
                term = name.removeprefix("expert_")
                look = {"color": getattr(style, _LOOKS[term]), "edgecolor": style.INK}
                ax.barh(place, value, left=left, alpha=0.2 if term in _PALE else 0.55, **look)
                left += value
        ax.axvline(stages[0]["hbm"], color=style.INK, linewidth=2)
        ax.set_yticks(range(len(stages)), [f"stage {place}" for place in range(len(stages))])
        ax.invert_yaxis()
        style.quantity_axis(ax.xaxis, "B", "memory of one rank")
        return style.inline_svg(fig, alt=text)


_COLOURS = {
    "INK": ("weights", "reserve"),
    "BACKWARD": ("gradients", "passing", "main"),
    "FOURTH": ("master", "moments"),
    "FORWARD": ("activations", "again", "logits"),
    "COMMUNICATION": ("gathered", "sequence", "ring", "ahead"),
}
_LOOKS = {term: colour for colour, terms in _COLOURS.items() for term in terms}
_PALE = ("again", "logits", "reserve")
_PARTS = ("weights", "gradients", "passing", "main", "master", "moments")


def _every_line() -> MemoryAccount:
    """An account that has every line there can be: two kinds of layers, all divisions, all sums."""
    everything = StateRecipe("everything", passing=2, main=4)
    layout = Layout(tp=2, cp=2, dp=2, ep=2, zero=3, sequence_parallel=True, recompute="full")
    return rank_memory(
        published_models["deepseek-v3"], layout, seq=4096, recipe=everything,
        allocator=AllocatorModel(), gpu=catalog["h100-sxm"],
    )  # fmt: skip


def _lines(template: MemoryAccount) -> list[dict]:
    """Every line for the script; of two kinds of layers it repeats the one that needs more."""
    lines = []
    for name, entry in template.lines.items():
        label = template.label(name)
        if entry.formula is None:
            parts = [
                p
                for part in entry.parts
                for p in ((part, "expert_again") if part == "again" else (part,))
            ]
            lines.append({"key": name, "label": label, "unit": "B", "sum": parts})
            continue
        feeds = template.inputs(name)
        if name != "again":
            lines.append(_line(name, label, entry.formula, feeds))
            continue
        for prefix in ("", "expert_"):
            own = {"repeated_bytes": f"{prefix}layer_again", "layer_bytes": f"{prefix}layer"}
            lines.append(_line(prefix + name, label, entry.formula, feeds | own))
    return lines


def _line(name: str, label: str, formula, feeds) -> dict:
    facts = {"key": name, "label": label, "unit": formula.unit}
    return facts | line_equation(formula) | {"feeds": list(feeds.values())}


def _model(spec: TransformerSpec) -> dict:
    """What the script needs to know of a model: counts, and the bytes of each policy."""
    kinds = {"dense": spec.layers > spec.expert_layers, "mixed": spec.expert_layers > 0}
    tokens = {}
    for policy in dict.fromkeys(policy for _, policy, _ in RECOMPUTE.values()):
        for flash in (False, True):
            options = {"flash": flash, "recompute": policy}
            tokens[f"{policy} {int(flash)}"] = {
                kind: {
                    "kept": vars(token_bytes(spec, experts=kind == "mixed", **options)),
                    "again": vars(repeated_token_bytes(spec, experts=kind == "mixed", **options)),
                }
                for kind, there in kinds.items()
                if there
            }
    keys = token_bytes(spec, experts=bool(spec.expert_layers)).keys
    return {
        "label": _label(spec), "params": spec.params(), "layers": spec.layers,
        "expertLayers": spec.expert_layers, "experts": spec.moe.experts if spec.moe else 0,
        "hidden": spec.hidden, "vocab": spec.vocab, "kvHeads": spec.kv_heads, "keyBytes": keys,
        "groups": [vars(group) | {"kind": group.kind} for group in parameter_groups(spec)],
        "tokens": tokens, "tps": [tp for tp in SLIDERS["tp"][1] if _divides(spec, tp)],
        "stages": [even_stages(spec.layers, pp) for pp in SLIDERS["pp"][1] if pp <= spec.layers],
    }  # fmt: skip


def _label(spec: TransformerSpec) -> str:
    return MODELS.get(spec.name, spec.name)


def _divides(spec: TransformerSpec, tp: int) -> bool:
    try:
        rank_memory(spec, seq=SLIDERS["seq"][1][0], tp=tp)
    except ValueError:
        return False
    return True


def _known(name: str) -> bool:
    return _SYMBOLS.get(name, name) in NOTATION


def _index(argument: str, value, allowed: Sequence) -> int:
    if value not in allowed:
        raise ValueError(f"{argument}: {value!r}; allowed are {', '.join(map(str, allowed))}")
    return list(allowed).index(value)
