"""OneRatio: five strategies, five lengths, and one slider that moves all of their borders."""

import html
from collections.abc import Mapping, Sequence

from dtlib.explore.controls import Control, Task, between, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity
from dtlib.foundations.roofline.one_ratio import HIDING, link_bandwidths, link_ratios
from dtlib.machines.datasheets import catalog
from dtlib.models.published import published_models
from dtlib.models.spec import TransformerSpec

DEGREE = 8  # ranks of a tensor-parallel group, stages of a pipeline, ranks that share a sequence
MODELS = ("gpt-3", "llama-3.1-405b", "mixtral-8x7b", "mixtral-8x22b", "deepseek-v3")
LINKS = {
    "nvlink4": "NVLink",
    "pcie5-x16": "PCIe 5",
    "ib-ndr400": "network, a port",
    "scattered": "bad case: ranks scattered, a port",
}
ENDS = 100, 1_000_000
MOST_MODELS = 6
_TRACKS = {
    "data": ("data, behind the backward pass", "tokens of a replica in one step"),
    "tensor": ("tensor", f"width of the model, on {DEGREE} ranks"),
    "pipeline": ("pipeline", f"width × layers of one of {DEGREE} stages"),
    "context": ("context, causal", f"a rank's tokens of one sequence, on {DEGREE} ranks"),
    "expert": ("expert", "inner width of an expert"),
}
TASK = Task(
    "Find a published model with which all five hide on the network, at 10,000 FLOP/B or more.",
    "hidden >= 5 and rho >= 10000 and published > 0",
    {"rho": 10000, "model": 3},
    "Here tensor parallelism is the first to show, on the four ports of its eight ranks.",
)


class OneRatio(Widget):
    """Where the communication of each strategy hides behind the arithmetic, and where it does not.

    One slider: rho, the FLOP that a device could do while its link or port sends one byte, with
    buttons for four ways out of a GPU, per direction. On the network a strategy has the ports of
    its ring (`dtlib.foundations.roofline.one_ratio.HIDING`): data parallelism over whole nodes
    eight; in the bad case, with ranks scattered over the nodes, each has one. Each of five tracks
    has a border at a multiple of rho and a mark at a model's own length, which the reader drags.
    Right of its border a strategy is hidden, left of it exposed. Arguments: `title`; `models`,
    names of published models, at most six, the first of which is shown; `link`, one of ``LINKS``,
    where the slider starts; `gpu`, of the catalog, in bf16; `task` over ``rho``, ``hidden`` (how
    many of the five hide) and ``published`` (1 for the lengths of a published model, 0 for the
    reader's own), with a solution ``{"rho": ..., "model": index}``. A model is taken with one
    sequence of its longest context for each replica. Raises ValueError for an unknown model or
    link, and for a task as others do.

    >>> from dtlib.explore import OneRatio
    >>> figure = OneRatio("What hides behind the arithmetic?", models=("mixtral-8x7b", "gpt-3"))
    >>> [name for name, share in figure.shares().items() if share > 1]  # exposed on one port
    ['tensor', 'context']
    """

    _esm = script("quantities.js", "page.js", "one_ratio.js")
    _css = script("widget.css", "plot.css", "one_ratio.css")

    def __init__(
        self,
        title: str = "One ratio decides for all five",
        *,
        models: Sequence[str] = ("mixtral-8x7b", *(m for m in MODELS if m != "mixtral-8x7b")),
        link: str = "ib-ndr400",
        gpu: str = "h100-sxm",
        task: Task | None = None,
    ):
        if not 1 <= len(models) <= MOST_MODELS:
            raise ValueError(f"models: from 1 to {MOST_MODELS}; got {len(models)}")
        if link not in LINKS:
            raise ValueError(f"link = {link!r}; there are {', '.join(LINKS)}")
        self._specs = [published_models[name] for name in models]
        ratios, betas = link_ratios(gpu), link_bandwidths(gpu)
        lanes = {name: "ib-ndr400" if name == "scattered" else name for name in LINKS}
        marks = {name: round(ratios[lane]) for name, lane in lanes.items()}
        self._control = _with(between(300, 40_000, start=marks[link]), marks.values())
        self._link, self._rho = link, marks[link]
        ratio = slider_over(
            "rho",
            "FLOP that the GPU could do while its link or port sends one byte",
            "",
            self._control.values,
            self._rho,
        )
        spec = {
            "title": title,
            "ends": list(ENDS),
            "ratio": ratio | {"unit": "FLOP/B"},
            "links": [
                [
                    LINKS[name],
                    rho,
                    format_quantity(betas[lanes[name]], "B/s", 3),
                    list(ports_of(name).values()),
                ]
                for name, rho in marks.items()
            ],
            "start": list(LINKS).index(link),
            "gpu": f"{gpu}, {format_quantity(catalog[gpu].peak('bf16'), 'FLOP/s', 3)} in bf16",
            "tracks": [
                {"key": key, "length": words, "values": list(_grid().values)}
                for key, (_, words) in _TRACKS.items()
            ],
            "models": [
                {
                    "label": model.name,
                    "lengths": list(lengths_of(model).values()),
                    "factors": list(factors_of(model).values()),
                }
                for model in self._specs
            ],
        }
        spec["task"] = self._task(task)
        super().__init__(spec=spec)

    def borders(
        self, rho: float | None = None, model: int = 0, link: str | None = None
    ) -> dict[str, float]:
        """The least length that hides, for each strategy."""
        rho = self._rho if rho is None else rho
        ports = ports_of(self._link if link is None else link)
        factors = factors_of(self._specs[model])
        return {key: factor * rho / ports[key] for key, factor in factors.items()}

    def shares(
        self, rho: float | None = None, model: int = 0, link: str | None = None
    ) -> dict[str, float]:
        """Communication over arithmetic for each strategy that the model has; hidden up to 1."""
        lengths = lengths_of(self._specs[model])
        borders = self.borders(rho, model, link)
        return {key: borders[key] / length for key, length in lengths.items() if length}

    def _task(self, task: Task | None) -> dict | None:
        if task is None:
            return None

        def names(rho=self._rho, model=0) -> dict[str, float]:
            hidden = sum(share <= 1 for share in self.shares(rho, model).values())
            return {"rho": rho, "hidden": hidden, "published": 1}

        if task.solution.get("rho", self._rho) not in self._control.values:
            raise ValueError(f"solution: rho cannot take the value {task.solution['rho']!r}")
        return task.checked(names)

    def _figure(self) -> str:
        import numpy as np

        from dtlib.style import BACKWARD, FORWARD, INK, figure, inline_svg

        lengths, borders = lengths_of(self._specs[0]), self.borders()
        fig, ax = figure(height=3.4)
        words = []
        for row, (key, length) in enumerate(lengths.items()):
            border = np.clip(borders[key], *ENDS)
            ax.barh(row, ENDS[1] - border, left=border, height=0.5, color=FORWARD, alpha=0.25)
            ax.plot([border, border], [row - 0.36, row + 0.36], "-", color=INK)
            if not length:
                words.append(f"{key} none")
                continue
            hides = length >= borders[key]
            color, mark = (FORWARD, "o") if hides else (BACKWARD, "X")
            ax.plot([np.clip(length, *ENDS)], [row], mark, color=color, markersize=9)
            words.append(f"{key} {'hidden' if hides else 'exposed'}")
        ax.set(xscale="log", xlim=ENDS, yticks=range(len(lengths)), yticklabels=list(lengths))
        ax.set_xlabel("length of the strategy (count); shaded: long enough to hide")
        ax.invert_yaxis()
        state = f"{self._specs[0].name} at {self._rho:,} FLOP/B: {', '.join(words)}"
        caption = html.escape(f"{as_sentence(self.spec['title'])} {state}.")
        return inline_svg(fig, alt=state) + f"\n<figcaption>{caption}</figcaption>"


def lengths_of(model: TransformerSpec) -> dict[str, float | None]:
    """The five lengths of a model: one sequence of its context a replica, everything else by 8.

    >>> lengths_of(published_models["mixtral-8x7b"])
    {'data': 32768, 'tensor': 4096, 'pipeline': 16384, 'context': 4096, 'expert': 14336}
    """
    return {
        "data": model.context,
        "tensor": model.hidden,
        "pipeline": model.hidden * model.layers / DEGREE
        if model.layers % DEGREE
        else model.hidden * model.layers // DEGREE,
        "context": model.context // DEGREE,
        "expert": model.moe.ffn if model.moe else None,
    }


def factors_of(model: TransformerSpec) -> Mapping[str, float]:
    """The multiples of rho at which a model's borders lie; its key heads enter that of context."""
    heads = {"kv_heads": model.kv_heads, "heads": model.heads}
    return {key: HIDING[line].factor(**heads, tp=DEGREE) for key, (line, _) in _TRACKS.items()}


def ports_of(link: str) -> dict[str, int]:
    """How many links or ports carry a strategy's ring: more than one on the network alone.

    >>> ports_of("ib-ndr400")
    {'data': 8, 'tensor': 4, 'pipeline': 1, 'context': 1, 'expert': 1}
    """
    network = link == "ib-ndr400"
    return {key: HIDING[line].members if network else 1 for key, (line, _) in _TRACKS.items()}


def _grid() -> Control:
    return between(*ENDS, start=ENDS[0])


def _with(control: Control, more) -> Control:
    return Control(tuple(sorted({*control.values, *more})), control.start, control.scale)
